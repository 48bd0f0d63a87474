//! A short story on the in-memory store: a burst, a denial with its wait, a chain, a shadow plan, a store that fails.
//!
//! Run it with `cargo run --release --example quickstart`. It needs no server.

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use limiter_core::{
    Charge, Cost, Decision, DefaultRateLimiter, InMemoryPlanRegistry, Key, Plan, PlanName,
    RateLimiter, RateLimiterRepository, Refund, SlidingWindow, StoreError, TokenBucket, Verdict,
    hours,
};
use limiter_memory::MemoryStore;

type Story = Result<(), Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Story {
    let plans = Arc::new(InMemoryPlanRegistry::new([
        Plan::new("gold", TokenBucket::per_second(1).with_capacity(3))?,
        Plan::new("daily", SlidingWindow::new(5, hours(24)))?,
        Plan::new("stricter", "fixed 1/min")?.in_shadow(),
    ])?);
    println!("Plans, as a configuration file would name them:");
    for plan in plans.plans().iter() {
        println!("  {plan}");
    }
    let limiter = DefaultRateLimiter::new(plans.clone(), Arc::new(MemoryStore::new()));

    a_burst_and_a_wait(&limiter).await?;
    a_chain(&limiter).await?;
    a_shadow_plan(&limiter).await?;
    a_store_that_fails(plans).await
}

async fn a_burst_and_a_wait(limiter: &DefaultRateLimiter) -> Story {
    println!("\n1. A burst: alice asks four times at once, her bucket holds three.");
    let (alice, gold) = (Key::new("alice")?, [PlanName::new("gold")?]);
    for _ in 0..3 {
        tell("alice", &limiter.check(&alice, &gold, Cost::ONE).await?);
    }
    let denied = limiter.check(&alice, &gold, Cost::ONE).await?;
    tell("alice", &denied);
    if let Some(wait) = denied.retry_after() {
        println!("   The wait is a promise. She waits exactly {wait:?} ...");
        tokio::time::sleep(wait).await;
        tell("alice", &limiter.check(&alice, &gold, Cost::ONE).await?);
    }
    Ok(())
}

async fn a_chain(limiter: &DefaultRateLimiter) -> Story {
    println!("\n2. A chain: bob is limited by two plans at once, all or nothing.");
    let (bob, both) = (
        Key::new("bob")?,
        [PlanName::new("gold")?, PlanName::new("daily")?],
    );
    let mut first = limiter.check(&bob, &both, Cost::new(3)?).await?;
    tell("bob, cost 3", &first);
    tell(
        "bob, cost 3",
        &limiter.check(&bob, &both, Cost::new(3)?).await?,
    );
    println!("   The denial charged neither plan:");
    tell("bob, peek  ", &limiter.peek(&bob, &both, Cost::ONE).await?);
    println!("   His first request failed for another reason, so he gets it back:");
    if let Some(mut receipt) = first.take_receipt() {
        tell(
            "bob, refund",
            &limiter.refund(&mut receipt, Cost::new(3)?).await?,
        );
    }
    Ok(())
}

async fn a_shadow_plan(limiter: &DefaultRateLimiter) -> Story {
    println!(
        "\n3. A shadow plan: `stricter` is on trial. It counts and reports, and denies nobody."
    );
    let carol = Key::new("carol")?;
    let plans = [PlanName::new("gold")?, PlanName::new("stricter")?];
    for _ in 0..2 {
        tell("carol", &limiter.check(&carol, &plans, Cost::ONE).await?);
    }
    Ok(())
}

async fn a_store_that_fails(plans: Arc<InMemoryPlanRegistry>) -> Story {
    println!("\n4. The store fails: by default requests pass, and the decision says who let them.");
    let limiter = DefaultRateLimiter::new(plans, Arc::new(BrokenStore));
    let (dave, gold) = (Key::new("dave")?, PlanName::new("gold")?);
    tell("dave", &limiter.check(&dave, &[gold], Cost::ONE).await?);
    println!("   A mistake of the caller never passes:");
    let unknown = limiter
        .check(&dave, &[PlanName::new("glod")?], Cost::ONE)
        .await;
    if let Err(error) = unknown {
        println!("   dave: error: {error}");
    }
    Ok(())
}

fn tell(who: &str, decision: &Decision) {
    println!("   {who}: {decision}");
}

/// A store that nobody can reach.
struct BrokenStore;

impl BrokenStore {
    fn unreachable() -> StoreError {
        StoreError::unavailable(Charge::Impossible, "connection refused")
    }
}

#[async_trait]
impl RateLimiterRepository for BrokenStore {
    async fn try_acquire(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        Err(Self::unreachable())
    }

    async fn peek(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        Err(Self::unreachable())
    }

    async fn refund(&self, _: &Key, _: &[Plan], _: &Refund) -> Result<Verdict, StoreError> {
        Err(Self::unreachable())
    }

    async fn reset(&self, _: &Key, _: &[Plan]) -> Result<(), StoreError> {
        Err(Self::unreachable())
    }
}
