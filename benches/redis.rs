//! How the stores on Redis grow: decisions a second at several numbers of tasks and of chained plans, beside plain INCR on the
//! same server, taking turns; then the server's processor time for each.

use limiter_benches::shared_store::{Bench, TURN};
use limiter_benches::turns::{Problem, Racer, Turns};

const ROUNDS: usize = 7;

#[tokio::main]
async fn main() -> Result<(), Problem> {
    let bench = Bench::start().await?;
    for tasks in [1, 16, 64, 256] {
        let mut racers = racers(&bench)?;
        racers.push(bench.trypema("trypema's absolute limiter").await?);
        let names: Vec<_> = racers.iter().map(Racer::name).collect();
        let turns = Turns::run(&racers, tasks, ROUNDS, TURN).await?;
        println!("{tasks} tasks on one connection:");
        for name in names {
            let (rate, ratio) = (turns.rate(name), turns.ratio(name, "INCR"));
            println!("  {name:<34} {rate:>8.0}/s  {ratio:.2} of INCR");
        }
    }
    println!("microseconds of the server's processor for a call, at 64 tasks:");
    for racer in racers(&bench)? {
        let (name, command) = (
            racer.name(),
            if racer.name() == "INCR" {
                "incr"
            } else {
                "evalsha"
            },
        );
        println!(
            "  {name:<34} {:>8.2}",
            bench.server_us(racer, command).await?
        );
    }
    println!(
        "{:.0} bytes for each of 100,000 identities",
        bench.bytes_per_identity().await?
    );
    Ok(())
}

fn racers(bench: &Bench) -> Result<Vec<Racer>, Problem> {
    Ok(vec![
        bench.incr(),
        bench.buckets("one token bucket", 1)?,
        bench.buckets("chain of three", 3)?,
        bench.buckets("chain of eight", 8)?,
        bench.window("sliding window, 100 sub-buckets")?,
        bench.fred("one token bucket, fred")?,
    ])
}
