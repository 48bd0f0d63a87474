//! A full store behind the limiters: what becomes of new keys, and who sees it.
#![cfg(test)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use limiter_core::{
    AbuseFailurePolicy, AbuseLimiter, AbuseOutcome, AbusePolicy, BreakerState, Cost, Decision,
    DefaultAbuseLimiter, DefaultRateLimiter, FailurePolicy, InMemoryPlanRegistry, LocalStore,
    Observer, Outcome, RateLimiter, Share, Source, StoreError, Tier, minutes,
};
use limiter_memory::{MemoryAbuseStore, MemoryStore};
use limiter_testkit::{CapturedLog, ManualClock, block_on};
use support::{key, plan, store};

/// Counts failures of one class, as an operator's metrics would.
#[derive(Default)]
struct Fulls(AtomicU64);

impl Observer for Fulls {
    fn decided(&self, _: &Decision) {}

    fn store_failed(&self, error: &StoreError) {
        self.0.fetch_add(u64::from(error.kind() == "full"), Relaxed);
    }

    fn breaker_changed(&self, _: BreakerState) {}
}

fn limiter(store: Arc<MemoryStore>) -> DefaultRateLimiter {
    let plans = InMemoryPlanRegistry::new([plan("daily", "1/24h")]).unwrap();
    DefaultRateLimiter::new(Arc::new(plans), store)
}

fn check(limiter: &DefaultRateLimiter, who: &str) -> Decision {
    let daily = [plan("daily", "1/24h").name().clone()];
    // The way that spends and says no more must not be another one.
    assert!(!limiter.spend_if_plenty(&key(who), &daily, Cost::ONE));
    block_on(limiter.check(&key(who), &daily, Cost::ONE)).unwrap()
}

#[test]
fn failing_open_leaves_new_keys_unlimited_and_is_seen() {
    let (log, fulls) = (CapturedLog::start(), Arc::new(Fulls::default()));
    let store = Arc::new(store(2).0);
    let limiter = limiter(store.clone()).with_observer(fulls.clone());
    for who in ["a", "b"] {
        assert_eq!(check(&limiter, who).source(), Source::Store);
    }
    for _ in 0..500 {
        let decision = check(&limiter, "late");
        assert!(decision.is_allowed());
        assert_eq!(decision.source(), Source::FailOpen);
    }
    assert!(
        !check(&limiter, "a").is_allowed(),
        "who is tracked is limited"
    );
    assert_eq!(store.stats().refused_new_keys, 500);
    assert_eq!(fulls.0.load(Relaxed), 500);
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("tracks 2 keys") && lines[0].contains("fail_open"),
        "{lines:?}"
    );
}

#[test]
fn full_store_denies_new_keys_if_told_until_there_is_room() {
    let (store, clock) = store(2);
    let limiter = limiter(Arc::new(store)).denying_when_full();
    for who in ["a", "b"] {
        assert!(check(&limiter, who).is_allowed());
    }
    for _ in 0..500 {
        let decision = check(&limiter, "late");
        assert_eq!(decision.outcome(), &Outcome::Unavailable);
        assert_eq!(decision.source(), Source::FailClosed);
    }
    clock.advance(Duration::from_secs(24 * 3600));
    assert_eq!(check(&limiter, "late").source(), Source::Store);
    assert!(!check(&limiter, "late").is_allowed(), "by its plan");
}

/// Behind a fallback the store that is full may be either.
#[test]
fn full_local_store_denies_whatever_the_policy() {
    let away = DefaultRateLimiter::new(
        Arc::new(InMemoryPlanRegistry::new([plan("daily", "1/24h")]).unwrap()),
        Arc::new(store(1).0),
    );
    let (local, _) = store(1);
    let local = LocalStore::new(Arc::new(local), Share::of_nodes(1).unwrap());
    let limiter = away.with_failure_policy(FailurePolicy::Fallback(local));
    assert_eq!(check(&limiter, "a").source(), Source::Store);
    assert_eq!(check(&limiter, "b").source(), Source::Fallback);
    assert_eq!(check(&limiter, "c").source(), Source::FailClosed);
}

#[test]
fn full_store_of_attempts_does_as_it_is_told() {
    let tier = Tier::new("temp", 1, minutes(15));
    let login = AbusePolicy::builder("login").tier(tier).build().unwrap();
    let full = || {
        let builder = MemoryAbuseStore::builder().max_keys(1);
        let store = builder
            .clock(Arc::new(ManualClock::new()))
            .build_abuse_store()
            .unwrap();
        assert!(store.record_sync(&key("a"), &login).is_ok());
        Arc::new(store)
    };
    let record = |limiter: DefaultAbuseLimiter| block_on(limiter.record(&key("late"), &login));
    let open = || DefaultAbuseLimiter::with_failure_policy(full(), AbuseFailurePolicy::FailOpen);
    assert_eq!(record(open()).source(), Source::FailOpen);
    let denied = record(open().denying_when_full());
    assert_eq!(denied.outcome(), &AbuseOutcome::Unavailable);
    assert_eq!(denied.failure().unwrap().kind(), "full");
    let stood_in = DefaultAbuseLimiter::new(full(), Arc::new(MemoryAbuseStore::new()));
    assert_eq!(record(stood_in).source(), Source::Fallback);
    let both_full = DefaultAbuseLimiter::new(full(), full());
    assert_eq!(record(both_full).source(), Source::FailClosed);
}
