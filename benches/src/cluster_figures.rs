//! The figure of the store on a Redis Cluster: calls to one node are written together, beside a client that sends each by itself.

use std::sync::Arc;
use std::time::Duration;

use limiter_core::RateLimiterRepository;
use limiter_redis::{KeyLayout, RedisStore, redis};
use limiter_testkit::server::{Flavour, RedisCluster, ensure_installed};

use crate::figure::Goal;
use crate::shared_store::{KEYS, TURN, chain, racer};
use crate::turns::{Problem, Turns};

const TASKS: usize = 64;
/// Longer than any call takes: the deadline is not what is measured.
const PATIENT: Duration = Duration::from_secs(5);

/// Measures, and tells the figure: its name, its value, its goal.
///
/// # Errors
/// If there is no cluster to be had, or a call fails.
pub async fn measure(rounds: usize, tell: impl Fn(&'static str, f64, Goal)) -> Result<(), Problem> {
    ensure_installed(Flavour::Redis)?;
    let cluster = RedisCluster::start(Flavour::Redis)?;
    let routed = RedisStore::builder(cluster.address().parse()?).with_deadline(PATIENT);
    let client = redis::cluster::ClusterClientBuilder::new(cluster.urls())
        .retries(0)
        .response_timeout(PATIENT)
        .build()?;
    let given = RedisStore::on(client.get_async_connection().await?)
        .with_layout(KeyLayout::new("given")?)
        .with_deadline(PATIENT);
    let routed: Arc<dyn RateLimiterRepository> = Arc::new(routed.build()?);
    let given: Arc<dyn RateLimiterRepository> = Arc::new(given.build()?);
    let racers = [
        racer("routed", &routed, chain(1)?, KEYS),
        racer("one by one", &given, chain(1)?, KEYS),
    ];
    let turns = Turns::run(&racers, TASKS, rounds, TURN).await?;
    let ratio = turns.ratio("routed", "one by one");
    tell(
        "redis.cluster.bucket_vs_one_by_one",
        ratio,
        Goal::AtLeast(1.0),
    );
    Ok(())
}
