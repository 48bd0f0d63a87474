//! The figures of the stores on Redis: one server, one connection, 64 tasks, all taking turns.

use crate::figure::Goal;
use crate::shared_store::{Bench, TURN};
use crate::turns::{Problem, Turns};

const TASKS: usize = 64;

/// Measures, and tells each figure: its name, its value, its goal.
///
/// # Errors
/// If there is no server to be had, or a call fails.
pub async fn measure(rounds: usize, tell: impl Fn(&'static str, f64, Goal)) -> Result<(), Problem> {
    let bench = Bench::start().await?;
    let racers = [
        bench.incr(),
        bench.buckets("bucket", 1)?,
        bench.buckets("chain", 3)?,
        bench.window("window")?,
        bench.fred("fred")?,
        bench.trypema("trypema").await?,
    ];
    let turns = Turns::run(&racers, TASKS, rounds, TURN).await?;
    for (name, racer, other, least) in [
        ("redis.bucket_vs_incr", "bucket", "INCR", 0.4),
        ("redis.bucket_vs_trypema", "bucket", "trypema", 2.0),
        ("redis.chain_of_3_vs_bucket", "chain", "bucket", 0.7),
        ("redis.window_of_100_vs_bucket", "window", "bucket", 0.6),
        ("fred.bucket_vs_redis", "fred", "bucket", 0.8),
    ] {
        tell(name, turns.ratio(racer, other), Goal::AtLeast(least));
    }
    for (name, racer) in [
        ("redis.bucket.server_us", bench.buckets("bucket", 1)?),
        ("redis.chain_of_3.server_us", bench.buckets("chain", 3)?),
        ("redis.window_of_100.server_us", bench.window("window")?),
        ("fred.bucket.server_us", bench.fred("fred")?),
    ] {
        tell(name, bench.server_us(racer, "evalsha").await?, Goal::None);
    }
    let bytes = bench.bytes_per_identity().await?;
    tell("redis.bytes_per_identity", bytes, Goal::AtMost(170.0));
    Ok(())
}
