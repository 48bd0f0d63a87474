//! A store that never waits is asked without a future, and decides the same.

use std::sync::Arc;

use async_trait::async_trait;
use limiter_core::mock::MockObserver;
use limiter_core::{
    CheckError, CircuitBreaker, Cost, DeadlineRepository, DefaultRateLimiter, FailurePolicy,
    FallbackRepository, InProcessRepository, InvalidRequest, Key, Outcome, Plan, RateLimiter,
    RateLimiterRepository, Refund, Source, StoreError, Verdict,
};
use limiter_testkit::{ManualClock, ManualRandom, ManualTimer, block_on};

use super::{admits, denies, key, local_quarter, names, outage, registry, verdict};

/// Answers at once. A call through a future panics.
struct AtOnce(fn(&[Plan]) -> Result<Verdict, StoreError>);

impl InProcessRepository for AtOnce {
    fn try_acquire_at_once(&self, _: &Key, plans: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        (self.0)(plans)
    }

    fn spend_if_plenty(&self, _: &Key, plan: &Plan, cost: Cost) -> bool {
        plan.name().as_str() == "gold" && cost == Cost::ONE
    }
}

#[async_trait]
impl RateLimiterRepository for AtOnce {
    async fn try_acquire(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        unreachable!("it is asked at once")
    }

    async fn peek(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        unreachable!("nobody looks")
    }

    async fn refund(&self, _: &Key, _: &[Plan], _: &Refund) -> Result<Verdict, StoreError> {
        unreachable!("nothing is given back")
    }

    async fn reset(&self, _: &Key, _: &[Plan]) -> Result<(), StoreError> {
        unreachable!("nothing is reset")
    }

    fn in_process(&self) -> Option<&dyn InProcessRepository> {
        Some(self)
    }
}

fn limiter(answer: fn(&[Plan]) -> Result<Verdict, StoreError>) -> DefaultRateLimiter {
    DefaultRateLimiter::new(registry(), Arc::new(AtOnce(answer)))
}

/// Admits one plan, and denies a chain by its second.
fn by_length(plans: &[Plan]) -> Result<Verdict, StoreError> {
    Ok(match plans {
        [_] => verdict(true, &[admits(9)]),
        _ => verdict(false, &[admits(9), denies(1500, 1)]),
    })
}

#[test]
fn store_in_process_decides_without_a_future() {
    let mut observer = MockObserver::new();
    observer.expect_decided().times(4).return_const(());
    let limiter = limiter(by_length).with_observer(Arc::new(observer));
    let (one, chain) = (names(&["gold"]), names(&["gold", "daily"]));
    let at_once = |plans: &[_]| limiter.check_at_once(&key(), plans, Cost::ONE).unwrap();
    let awaited = |plans: &[_]| block_on(limiter.check(&key(), plans, Cost::ONE));
    for answer in [at_once(&one), awaited(&one)] {
        let decision = answer.unwrap();
        assert!(decision.is_allowed() && decision.source() == Source::Store);
        assert_eq!(decision.plans()[0].remaining, 9);
    }
    for answer in [at_once(&chain), awaited(&chain)] {
        let decision = answer.unwrap();
        assert!(
            matches!(decision.outcome(), Outcome::Denied(denial) if denial.plan == chain[1]),
            "{decision}"
        );
    }
}

#[test]
fn store_in_process_that_fails_is_answered_for_at_once() {
    let failing = || limiter(|_| Err(outage()));
    let policies = [
        (FailurePolicy::FailOpen, Outcome::Allowed, Source::FailOpen),
        (
            FailurePolicy::FailClosed,
            Outcome::Unavailable,
            Source::FailClosed,
        ),
    ];
    for (policy, outcome, source) in policies {
        let mut observer = MockObserver::new();
        observer.expect_store_failed().once().return_const(());
        observer.expect_decided().once().return_const(());
        let limiter = failing()
            .with_failure_policy(policy)
            .with_observer(Arc::new(observer));
        let answer = limiter.check_at_once(&key(), &names(&["gold"]), Cost::ONE);
        let decision = answer.unwrap().unwrap();
        assert_eq!((decision.outcome(), decision.source()), (&outcome, source));
    }
}

#[test]
fn callers_own_mistake_is_told_at_once_and_never_fails_open() {
    let limiter = limiter(|_| Err(InvalidRequest::NoPlans.into()));
    let unknown = limiter.check_at_once(&key(), &names(&["gould"]), Cost::ONE);
    assert!(matches!(unknown, Some(Err(CheckError::UnknownPlan(_)))));
    let refused = limiter.check_at_once(&key(), &names(&["gold"]), Cost::ONE);
    assert!(matches!(refused, Some(Err(CheckError::Request(_)))));
}

#[test]
fn fallback_may_wait_so_nothing_is_asked_at_once() {
    let limiter = limiter(|_| unreachable!("nothing is asked"))
        .with_failure_policy(FailurePolicy::Fallback(local_quarter()));
    let answer = limiter.check_at_once(&key(), &names(&["gold"]), Cost::ONE);
    assert!(answer.is_none());
}

#[test]
fn plenty_is_spent_where_nobody_has_to_see_a_decision() {
    let spends = |limiter: DefaultRateLimiter, plans: &[&str], cost: u32| {
        limiter.spend_if_plenty(&key(), &names(plans), Cost::new(cost).unwrap())
    };
    let limiter = || limiter(|_| unreachable!("nothing is decided"));
    assert!(spends(limiter(), &["gold"], 1));
    let fallback = FailurePolicy::Fallback(local_quarter());
    assert!(spends(
        limiter().with_failure_policy(fallback),
        &["gold"],
        1
    ));
    assert!(!spends(limiter(), &["gold"], 2), "the store's word counts");
    assert!(!spends(limiter(), &["daily"], 1), "the store's word counts");
    assert!(!spends(limiter(), &["gold", "daily"], 1), "a chain");
    assert!(!spends(limiter(), &["gould"], 1), "an unknown plan");
    assert!(!spends(limiter(), &[], 1), "no plan");
    let changed = registry();
    changed.put(&Plan::new("gold", "20/s").unwrap());
    let store = Arc::new(AtOnce(|_| unreachable!("nothing is decided")));
    let limiter_of_changed = DefaultRateLimiter::new(changed, store);
    assert!(spends(limiter_of_changed, &["gold"], 1), "a changed plan");
    let observed = limiter().with_observer(Arc::new(MockObserver::new()));
    assert!(!spends(observed, &["gold"], 1), "an observer sees all");
}

#[test]
fn decorators_are_not_passed_over() {
    let store = || Arc::new(AtOnce(by_length));
    let (clock, random) = (ManualClock::new(), ManualRandom::default());
    let breaker = CircuitBreaker::new(store(), Arc::new(clock), Arc::new(random));
    assert!(breaker.in_process().is_none());
    let deadline = DeadlineRepository::new(store(), Arc::new(ManualTimer::new()));
    assert!(deadline.in_process().is_none());
    let fallback = FallbackRepository::new(store(), local_quarter());
    assert!(fallback.in_process().is_none());
}
