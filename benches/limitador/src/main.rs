//! Prints how the Redis store of limiter stands beside limitador's, in the form of `cargo xtask figures`.

mod peer;

use limiter_benches::figure::{Figure, Goal};
use limiter_benches::shared_store::{Bench, TURN};
use limiter_benches::turns::{Problem, Turns};

const TASKS: usize = 64;
const ROUNDS: usize = 9;

#[tokio::main]
async fn main() -> Result<(), Problem> {
    eprintln!("one token bucket on Redis, beside limitador ...");
    let bench = Bench::start().await?;
    let racers = [
        bench.buckets("bucket", 1)?,
        peer::limitador("limitador", &bench.url()).await?,
    ];
    let turns = Turns::run(&racers, TASKS, ROUNDS, TURN).await?;
    let figure = Figure {
        name: "redis.bucket_vs_limitador",
        value: turns.ratio("bucket", "limitador"),
        goal: Goal::AtLeast(2.5),
    };
    println!("{figure}");
    Ok(())
}
