//! The orchestrator and the decorators, against mocks of their ports.

#![allow(
    clippy::unwrap_used,
    reason = "a value that a test makes is good, or the test fails"
)]

mod at_once;
mod breaker;
mod decisions;
mod detached;
mod fallback;
mod receipts;
mod store_failures;

use std::sync::Arc;
use std::time::Duration;

use limiter_core::mock::MockRateLimiterRepository;
use limiter_core::{
    Charge, Cost, DefaultRateLimiter, InMemoryPlanRegistry, Key, LocalStore, Plan, PlanName,
    PlanVerdict, RateLimiter, RateLimiterRepository, Receipt, Share, Source, StoreError, Timestamp,
    Verdict,
};

fn key() -> Key {
    Key::new("user:42").unwrap()
}

fn names(names: &[&str]) -> Vec<PlanName> {
    names
        .iter()
        .map(|name| PlanName::new(name).unwrap())
        .collect()
}

fn registry() -> Arc<InMemoryPlanRegistry> {
    let plans = [
        Plan::new("gold", "10/s"),
        Plan::new("daily", "sliding 1000/24h"),
        Plan::new("trial", "5/min").map(Plan::in_shadow),
    ];
    Arc::new(InMemoryPlanRegistry::new(plans.map(Result::unwrap)).unwrap())
}

fn verdict(admitted: bool, plans: &[PlanVerdict]) -> Verdict {
    let retry_after = plans
        .iter()
        .map(|plan| plan.retry_after)
        .max()
        .unwrap_or_default();
    Verdict {
        source: Source::Store,
        admitted,
        retry_after,
        plans: plans.iter().copied().collect(),
    }
}

fn admits(remaining: u32) -> PlanVerdict {
    PlanVerdict {
        admits: true,
        remaining,
        ..PlanVerdict::default()
    }
}

/// What a store says of a plan that it charged at `at`.
fn charged(remaining: u32, at: Timestamp) -> PlanVerdict {
    PlanVerdict {
        charged_at: Some(at),
        ..admits(remaining)
    }
}

/// The receipt for what a limiter charges the user now.
async fn receipt(limiter: &DefaultRateLimiter, plans: &[&str], cost: u32) -> Option<Receipt> {
    let cost = Cost::new(cost).unwrap();
    let decision = limiter.check(&key(), &names(plans), cost).await;
    decision.unwrap().take_receipt()
}

fn denies(wait_ms: u64, free_after_wait: u32) -> PlanVerdict {
    let retry_after = Duration::from_millis(wait_ms);
    PlanVerdict {
        retry_after,
        free_after_wait,
        ..PlanVerdict::default()
    }
}

fn outage() -> StoreError {
    StoreError::unavailable(Charge::Possible, "connection reset")
}

fn answering(answer: Verdict) -> Arc<dyn RateLimiterRepository> {
    let mut store = MockRateLimiterRepository::new();
    store
        .expect_try_acquire()
        .returning(move |_, _, _| Ok(answer.clone()));
    Arc::new(store)
}

fn failing(error: fn() -> StoreError) -> Arc<dyn RateLimiterRepository> {
    let mut store = MockRateLimiterRepository::new();
    store
        .expect_try_acquire()
        .returning(move |_, _, _| Err(error()));
    store.expect_peek().returning(move |_, _, _| Err(error()));
    store.expect_refund().returning(move |_, _, _| Err(error()));
    store.expect_reset().returning(move |_, _| Err(error()));
    Arc::new(store)
}

/// A local store that admits everything and checks that it is asked for a quarter of `gold`.
fn local_quarter() -> LocalStore {
    let mut local = MockRateLimiterRepository::new();
    local
        .expect_try_acquire()
        .withf(|_, plans, _| plans.first().is_some_and(|plan| plan.limit().units() == 3))
        .returning(|_, _, _| Ok(verdict(true, &[admits(2)])));
    LocalStore::new(Arc::new(local), Share::of_nodes(4).unwrap())
}
