//! One server: a burst, a denial with its wait, a chain of plans, and a restart in the middle.
//!
//! `cargo run --release -p limiter-fred --example fred_standalone [redis://host:port]`. Without an address it starts a server of its
//! own, and may then also stop it.

use std::error::Error;
use std::time::Duration;

use limiter_core::{Cost, Key, Plan, RateLimiterRepository};
use limiter_fred::{Endpoint, FredStore};
use limiter_testkit::server::{Flavour, RedisServer, ensure_installed};

type Story = Result<(), Box<dyn Error>>;

#[tokio::main]
async fn main() -> Story {
    let (address, own) = match std::env::args().nth(1) {
        Some(address) => (address, None),
        None => {
            ensure_installed(Flavour::Redis)?;
            let server = RedisServer::start(Flavour::Redis)?;
            (server.url(), Some(server))
        }
    };
    let store = FredStore::builder(address.parse::<Endpoint>()?)
        .with_deadline(Duration::from_millis(250))
        .build()?;
    let user = Key::new(format!("example {}", std::process::id()))?;

    println!("1. gold allows 3 at once and one more a second.");
    let gold = [Plan::new("gold", "1/s burst 3")?];
    for nth in 1..=4 {
        let said = store.try_acquire(&user, &gold, Cost::ONE).await?;
        match said.admitted {
            true => println!("   request {nth}: allowed"),
            false => println!(
                "   request {nth}: denied, try again in {:?}",
                said.retry_after
            ),
        }
    }

    println!(
        "2. Under gold and daily together it is all or nothing: gold denies, so daily is not charged."
    );
    let both = [
        Plan::new("gold", "1/s burst 3")?,
        Plan::new("daily", "sliding 1000/24h")?,
    ];
    let said = store.try_acquire(&user, &both, Cost::ONE).await?;
    for (plan, standing) in both.iter().zip(&said.plans) {
        println!("   {}: {} left", plan.name(), standing.remaining);
    }

    if let Some(server) = &own {
        println!(
            "3. The server is killed. A call fails in time, and says whether it may have charged."
        );
        server.kill();
        let began = std::time::Instant::now();
        if let Err(error) = store.try_acquire(&user, &gold, Cost::ONE).await {
            let charged = if error.may_have_charged() {
                "may have charged"
            } else {
                "has charged nothing"
            };
            println!("   {error} after {:?}; it {charged}", began.elapsed());
        }
        println!("4. It comes back, empty. The store finds it by itself.");
        server.restart()?;
        while store.try_acquire(&user, &gold, Cost::ONE).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        println!("   allowed");
    }
    store.reset(&user, &both).await?;
    Ok(())
}
