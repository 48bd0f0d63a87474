//! A process in which nobody has set a subscriber of `tracing` hears of failures on standard error.

#![allow(
    clippy::unwrap_used,
    reason = "a value that a test makes is good, or the test fails"
)]

use std::process::Command;
use std::sync::Arc;

use async_trait::async_trait;
use limiter_core::{
    Charge, Cost, DefaultRateLimiter, InMemoryPlanRegistry, Key, Plan, PlanName, RateLimiter,
    RateLimiterRepository, Refund, Source, StoreError, Verdict,
};

struct Away;

fn away<T>() -> Result<T, StoreError> {
    Err(StoreError::unavailable(
        Charge::Impossible,
        "connection refused",
    ))
}

#[async_trait]
impl RateLimiterRepository for Away {
    async fn try_acquire(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        away()
    }

    async fn peek(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        away()
    }

    async fn refund(&self, _: &Key, _: &[Plan], _: &Refund) -> Result<Verdict, StoreError> {
        away()
    }

    async fn reset(&self, _: &Key, _: &[Plan]) -> Result<(), StoreError> {
        away()
    }
}

/// Says that this process is the one that is listened to.
const TALKS: &str = "LIMITER_TEST_TALKS";

#[test]
fn process_without_a_subscriber_hears_of_failures_on_standard_error() {
    if std::env::var_os(TALKS).is_some() {
        return talk();
    }
    let own_name = "process_without_a_subscriber_hears_of_failures_on_standard_error";
    let talking = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", own_name, "--nocapture"])
        .env(TALKS, "1")
        .output()
        .unwrap();
    assert!(talking.status.success(), "{talking:?}");
    let heard = String::from_utf8(talking.stderr).unwrap();
    let lines: Vec<_> = heard.lines().collect();
    assert_eq!(lines.len(), 1, "{heard}");
    assert!(
        lines[0].starts_with("limiter: error: store is unavailable"),
        "{heard}"
    );
    assert!(lines[0].contains("connection refused"), "{heard}");
}

fn talk() {
    let plans = InMemoryPlanRegistry::new([Plan::new("gold", "1/s").unwrap()]).unwrap();
    let limiter = DefaultRateLimiter::new(Arc::new(plans), Arc::new(Away));
    let (ann, gold) = (Key::new("ann").unwrap(), [PlanName::new("gold").unwrap()]);
    limiter_testkit::block_on(async {
        for _ in 0..100 {
            let decision = limiter.check(&ann, &gold, Cost::ONE).await.unwrap();
            assert_eq!(decision.source(), Source::FailOpen);
        }
    });
}
