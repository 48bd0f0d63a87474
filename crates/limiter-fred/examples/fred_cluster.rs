//! A cluster: eight users on three masters, a chain of plans for each, exact on every node.
//!
//! `cargo run --release -p limiter-fred --example fred_cluster [redis+cluster://host:port,host:port]`. Without an address it starts a
//! cluster of its own.

use std::error::Error;
use std::time::Duration;

use limiter_core::{Cost, Key, Plan, RateLimiterRepository};
use limiter_fred::{Endpoint, FredStore};
use limiter_testkit::server::{Flavour, RedisCluster, ensure_installed};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (address, own) = match std::env::args().nth(1) {
        Some(address) => (address, None),
        None => {
            ensure_installed(Flavour::Redis)?;
            println!("Starting a cluster of three masters ...");
            let cluster = RedisCluster::start(Flavour::Redis)?;
            (cluster.address(), Some(cluster))
        }
    };
    let store = FredStore::builder(address.parse::<Endpoint>()?)
        .with_deadline(Duration::from_secs(1))
        .build()?;
    // Two plans of one user are two fields of one key: one slot, one script, one round trip.
    let plans = [
        Plan::new("gold", "1/s burst 5")?,
        Plan::new("daily", "sliding 1000/24h")?,
    ];
    for nth in 0..8 {
        let user = Key::new(format!("example {} {nth}", std::process::id()))?;
        let mut allowed = 0;
        for _ in 0..7 {
            allowed += u32::from(store.try_acquire(&user, &plans, Cost::ONE).await?.admitted);
        }
        let place = match &own {
            Some(cluster) => {
                let slot = cluster.slot_of(store.layout().name(&user))?;
                let port = cluster.primary_of(slot)?.port();
                format!(" (slot {slot}, served on port {port})")
            }
            None => String::new(),
        };
        println!("user {nth}{place}: {allowed} of 7 requests allowed");
        store.reset(&user, &plans).await?;
    }
    Ok(())
}
