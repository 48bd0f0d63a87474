//! What becomes of a request when the store fails.

use std::sync::Arc;

use limiter_core::mock::MockObserver;
use limiter_core::{
    CheckError, Cost, DefaultRateLimiter, FailurePolicy, LocalStore, Outcome, RateLimiter, Reason,
    Share, Source,
};

use crate::{failing, key, local_quarter, names, outage, registry};

#[tokio::test]
async fn a_failing_store_fails_open_by_default_and_says_so() {
    let mut observer = MockObserver::new();
    observer.expect_store_failed().times(1).return_const(());
    observer
        .expect_decided()
        .withf(|decision| decision.source() == Source::FailOpen)
        .times(1)
        .return_const(());
    let limiter =
        DefaultRateLimiter::new(registry(), failing(outage)).with_observer(Arc::new(observer));
    let decision = limiter
        .check(&key(), &names(&["gold"]), Cost::ONE)
        .await
        .unwrap();
    assert!(decision.is_allowed());
    assert_eq!(decision.reason(), Reason::StoreFailed);
}

#[tokio::test]
async fn fail_closed_turns_away_without_a_made_up_wait() {
    let limiter = DefaultRateLimiter::new(registry(), failing(outage))
        .with_failure_policy(FailurePolicy::FailClosed);
    let decision = limiter
        .check(&key(), &names(&["gold"]), Cost::ONE)
        .await
        .unwrap();
    assert_eq!(decision.outcome(), &Outcome::Unavailable);
    assert_eq!(
        (decision.source(), decision.retry_after()),
        (Source::FailClosed, None)
    );
}

#[tokio::test]
async fn fallback_grants_this_nodes_share_and_says_so() {
    let limiter = DefaultRateLimiter::new(registry(), failing(outage))
        .with_failure_policy(FailurePolicy::Fallback(local_quarter()));
    let decision = limiter
        .check(&key(), &names(&["gold"]), Cost::ONE)
        .await
        .unwrap();
    assert_eq!(decision.source(), Source::Fallback);
    assert_eq!(
        (
            decision.plans()[0].plan.limit().units(),
            decision.plans()[0].remaining
        ),
        (10, 2),
        "the plan is told as it is, and what is left of the share"
    );
}

#[tokio::test]
async fn a_fallback_that_fails_too_turns_away() {
    let local = LocalStore::new(failing(outage), Share::of_nodes(1).unwrap());
    let limiter = DefaultRateLimiter::new(registry(), failing(outage))
        .with_failure_policy(FailurePolicy::Fallback(local));
    let decision = limiter
        .check(&key(), &names(&["gold"]), Cost::ONE)
        .await
        .unwrap();
    assert_eq!(decision.source(), Source::FailClosed);
}

#[tokio::test]
async fn peek_and_reset_tell_of_a_store_that_failed() {
    let limiter = DefaultRateLimiter::new(registry(), failing(outage));
    let plans = names(&["gold"]);
    let peeked = limiter.peek(&key(), &plans, Cost::ONE).await.unwrap_err();
    assert!(matches!(peeked, CheckError::Store(error) if error.may_have_charged()));
    assert!(limiter.reset(&key(), &plans).await.is_err());
}
