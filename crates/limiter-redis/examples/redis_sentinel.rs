//! Behind sentinels: the primary is killed, its replica takes over, and the store follows by itself.
//!
//! `cargo run --release -p limiter-redis --example redis_sentinel [redis+sentinel://host:port,host:port/master]`. Without an address it
//! starts a primary, a replica and three sentinels of its own, and then kills the primary.

use std::error::Error;
use std::time::{Duration, Instant};

use limiter_core::{Cost, Key, Plan, RateLimiterRepository};
use limiter_redis::{Endpoint, RedisStore};
use limiter_testkit::server::{Flavour, RedisSentinel, ensure_installed};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (address, own) = match std::env::args().nth(1) {
        Some(address) => (address, None),
        None => {
            ensure_installed(Flavour::Redis)?;
            println!("Starting a primary, a replica and three sentinels ...");
            let sentinel = RedisSentinel::start(Flavour::Redis)?;
            sentinel.wait_until_ok()?;
            (sentinel.address(), Some(sentinel))
        }
    };
    let store = RedisStore::builder(address.parse::<Endpoint>()?)
        .with_deadline(Duration::from_millis(250))
        .build()?;
    let user = Key::new(format!("example {}", std::process::id()))?;
    let plans = [Plan::new("gold", "1/h burst 10")?];
    for _ in 0..3 {
        let said = store.try_acquire(&user, &plans, Cost::ONE).await?;
        println!(
            "allowed, {} left",
            said.plans.first().map_or(0, |plan| plan.remaining)
        );
    }
    if let Some(sentinel) = &own {
        // What the replica has not got yet would be lost with the primary, and granted again.
        sentinel.wait_until_replicated()?;
        println!("The primary is killed ...");
        sentinel.primary()?.kill();
        let (began, mut failed) = (Instant::now(), 0);
        let said = loop {
            match store.try_acquire(&user, &plans, Cost::ONE).await {
                Ok(said) => break said,
                Err(_) => failed += 1,
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let left = said.plans.first().map_or(0, |plan| plan.remaining);
        println!(
            "{failed} calls failed in time; after {:?} the replica answers: {left} left",
            began.elapsed()
        );
    }
    store.reset(&user, &plans).await?;
    Ok(())
}
