//! What a decision tells, and requests that are the caller's own mistake.

use std::sync::Arc;
use std::time::Duration;

use limiter_core::mock::MockRateLimiterRepository;
use limiter_core::{
    CheckError, Cost, Decision, DefaultRateLimiter, InMemoryPlanRegistry, InvalidRequest, Plan,
    RateLimiter, Reason, Source,
};
use limiter_testkit::{ModelStore, StoreUnderTest};

use crate::{admits, answering, denies, failing, key, names, registry, verdict};

#[tokio::test]
async fn an_allowed_decision_says_how_every_plan_stands() {
    let store = answering(verdict(true, &[admits(9), admits(999)]));
    let limiter = DefaultRateLimiter::new(registry(), store);
    let decision = limiter
        .check(&key(), &names(&["gold", "daily"]), Cost::ONE)
        .await
        .unwrap();
    assert!(decision.is_allowed());
    assert_eq!(
        (decision.source(), decision.reason()),
        (Source::Store, Reason::WithinLimits)
    );
    assert_eq!(
        decision.to_string(),
        "allowed (store, within_limits); gold: 9 of 10 left; daily: 999 of 1000 left"
    );
}

#[tokio::test]
async fn a_denial_names_the_plan_that_takes_longest_its_wait_and_what_is_free_then() {
    let store = answering(verdict(false, &[denies(100, 1), denies(5_000, 3)]));
    let limiter = DefaultRateLimiter::new(registry(), store);
    let decision = limiter
        .check(&key(), &names(&["gold", "daily"]), Cost::ONE)
        .await
        .unwrap();
    let denial = decision.denial().unwrap();
    assert_eq!(denial.plan.as_str(), "daily");
    assert_eq!(
        (denial.retry_after, denial.free_after_wait),
        (Duration::from_secs(5), 3)
    );
    assert_eq!(decision.reason(), Reason::LimitExceeded);
}

#[tokio::test]
async fn a_shadow_plan_is_never_named_as_the_one_that_denied() {
    let store = answering(verdict(false, &[denies(100, 1), denies(5_000, 3)]));
    let limiter = DefaultRateLimiter::new(registry(), store);
    let decision = limiter
        .check(&key(), &names(&["gold", "trial"]), Cost::ONE)
        .await
        .unwrap();
    assert_eq!(decision.denial().unwrap().plan.as_str(), "gold");
    assert!(
        decision
            .to_string()
            .ends_with("trial: 0 of 5 left (shadow, would deny)")
    );
}

/// Asks `limiter` for `chain`, of plans whose limits are named, until it denies.
async fn denied(limits: &[(&str, &str, bool)], asks: u32) -> Decision {
    let plan = |(name, limit, shadow): &(&str, &str, bool)| {
        let plan = Plan::new(*name, *limit).unwrap();
        if *shadow { plan.in_shadow() } else { plan }
    };
    let plans: Vec<_> = limits.iter().map(plan).collect();
    let names: Vec<_> = plans.iter().map(|plan| plan.name().clone()).collect();
    let registry = Arc::new(InMemoryPlanRegistry::new(plans).unwrap());
    let store = ModelStore::new();
    let random = store.random();
    let limiter = DefaultRateLimiter::new(registry, Arc::new(store));
    random.set(u64::MAX);
    for _ in 1..asks {
        let _ = limiter.check(&key(), &names, Cost::ONE).await.unwrap();
    }
    random.set(0);
    limiter.check(&key(), &names, Cost::ONE).await.unwrap()
}

/// What was drawn under a trial is not why a request was denied.
#[tokio::test]
async fn a_shadow_plan_that_drew_lots_is_not_the_reason() {
    let trial = ("trial", "suppressing 1/h hard 100", true);
    let decision = denied(&[("gold", "fixed 2/h", false), trial], 3).await;
    assert_eq!(decision.reason(), Reason::LimitExceeded);
    assert_eq!(decision.denial().unwrap().plan.as_str(), "gold");

    let lots = ("lots", "suppressing 1/h hard 100", false);
    assert_eq!(denied(&[lots], 3).await.reason(), Reason::Suppressed);
    let exhausted = denied(&[lots, ("gold", "fixed 2/h", false)], 3).await;
    assert_eq!(exhausted.reason(), Reason::LimitExceeded);
}

/// The plan that is named is the one that the wait is for, also if it let this request pass by luck.
#[tokio::test]
async fn a_wait_and_the_plan_that_is_named_belong_together() {
    let mut lucky = admits(0);
    (lucky.retry_after, lucky.free_after_wait) = (Duration::from_secs(9), 4);
    for plans in [[lucky, denies(100, 1)], [denies(100, 1), lucky]] {
        let store = answering(verdict(false, &plans));
        let limiter = DefaultRateLimiter::new(registry(), store);
        let decision = limiter
            .check(&key(), &names(&["gold", "daily"]), Cost::ONE)
            .await
            .unwrap();
        let denial = decision.denial().unwrap();
        let named = decision
            .plans()
            .iter()
            .find(|plan| *plan.plan.name() == denial.plan);
        assert_eq!(denial.retry_after, named.unwrap().retry_after);
        assert_eq!(
            (denial.retry_after, denial.free_after_wait),
            (Duration::from_secs(9), 4)
        );
        let denying = decision.plans().iter().find(|plan| !plan.admits).unwrap();
        let text = format!(
            "denied by {}, retry after 9s for {} (store, limit_exceeded); ",
            denying.plan.name(),
            denial.plan
        );
        assert!(decision.to_string().starts_with(&text), "{decision}");
    }
    let lucky_trial = answering(verdict(false, &[denies(100, 1), lucky]));
    let limiter = DefaultRateLimiter::new(registry(), lucky_trial);
    let decision = limiter
        .check(&key(), &names(&["gold", "trial"]), Cost::ONE)
        .await
        .unwrap();
    let text = decision.to_string();
    assert!(text.starts_with("denied by gold, retry after "), "{text}");
    let store = answering(verdict(false, &[admits(3), denies(0, 1)]));
    let limiter = DefaultRateLimiter::new(registry(), store);
    let decision = limiter
        .check(&key(), &names(&["gold", "daily"]), Cost::ONE)
        .await
        .unwrap();
    assert_eq!(
        decision.denial().unwrap().plan.as_str(),
        "daily",
        "rather one that denied"
    );
}

#[tokio::test]
async fn the_callers_own_errors_never_fail_open_and_reach_no_store() {
    let untouched = Arc::new(MockRateLimiterRepository::new());
    let limiter = DefaultRateLimiter::new(registry(), untouched);
    let ask = |plans: &[&str], cost| {
        let (key, plans) = (key(), names(plans));
        let limiter = &limiter;
        async move {
            limiter
                .check(&key, &plans, Cost::new(cost).unwrap())
                .await
                .unwrap_err()
        }
    };
    assert!(matches!(
        ask(&["glod"], 1).await,
        CheckError::UnknownPlan(_)
    ));
    assert_eq!(
        ask(&["gold"], 11).await.to_string(),
        "cost 11 is more than plan gold can ever admit: spend at most 10, or raise the plan"
    );
    assert!(matches!(
        ask(&[], 1).await,
        CheckError::Request(InvalidRequest::NoPlans)
    ));
    assert!(matches!(
        ask(&["gold", "GOLD"], 1).await,
        CheckError::Request(InvalidRequest::DuplicatePlan { .. })
    ));
}

#[tokio::test]
async fn a_request_that_the_store_refuses_never_fails_open() {
    let limiter = DefaultRateLimiter::new(registry(), failing(|| InvalidRequest::NoPlans.into()));
    let error = limiter
        .check(&key(), &names(&["gold"]), Cost::ONE)
        .await
        .unwrap_err();
    assert!(matches!(
        error,
        CheckError::Request(InvalidRequest::NoPlans)
    ));
}
