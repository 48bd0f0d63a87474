//! The fallback as a decorator of a store.

use std::sync::Arc;

use limiter_core::mock::MockRateLimiterRepository;
use limiter_core::{
    Cost, FallbackRepository, InvalidRequest, LocalStore, Plan, RateLimiterRepository, Share,
    Source, StoreError,
};

use crate::{admits, failing, key, local_quarter, outage, verdict};

#[tokio::test]
async fn the_fallback_decorator_keeps_the_callers_errors_and_answers_for_outages() {
    let plans = [Plan::new("gold", "10/s").unwrap()];
    let guarded = FallbackRepository::new(failing(outage), local_quarter());
    let answer = guarded
        .try_acquire(&key(), &plans, Cost::ONE)
        .await
        .unwrap();
    assert_eq!(answer.source, Source::Fallback);

    let refused =
        FallbackRepository::new(failing(|| InvalidRequest::NoPlans.into()), local_quarter());
    let error = refused
        .try_acquire(&key(), &plans, Cost::ONE)
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Request(_)));
}

#[tokio::test]
async fn the_fallback_decorator_lets_the_local_store_look_and_forget() {
    let mut local = MockRateLimiterRepository::new();
    local
        .expect_peek()
        .times(1)
        .returning(|_, _, _| Ok(verdict(true, &[admits(2)])));
    local.expect_reset().times(1).returning(|_, _| Ok(()));
    let local = LocalStore::new(Arc::new(local), Share::of_nodes(4).unwrap());
    let guarded = FallbackRepository::new(failing(outage), local);
    let plans = [Plan::new("gold", "10/s").unwrap()];
    assert_eq!(
        guarded
            .peek(&key(), &plans, Cost::ONE)
            .await
            .unwrap()
            .source,
        Source::Fallback
    );
    assert!(
        guarded.reset(&key(), &plans).await.is_err(),
        "the shared store did not confirm it"
    );
}

/// A share of less than one unit in 366 days grants nothing, whichever way the fallback is built; a shadow plan denies nobody.
#[tokio::test]
async fn a_share_that_is_too_small_denies_and_says_so_when_it_is_built() {
    let small = Plan::new("yearly", "10/366d").unwrap();
    let chain = [Plan::new("gold", "10/s").unwrap(), small.clone()];
    let share = Share::of_nodes(100).unwrap();
    let local = || Arc::new(limiter_testkit::ModelStore::new());
    let Err(told) = LocalStore::for_plans(local(), share, &chain) else {
        panic!("nothing is said")
    };
    assert_eq!(told.plan(), small.name());
    assert!(LocalStore::for_plans(local(), share, &chain[..1]).is_ok());

    let guarded = FallbackRepository::new(failing(outage), LocalStore::new(local(), share));
    for plans in [&chain[..], &chain[1..]] {
        let verdict = guarded.try_acquire(&key(), plans, Cost::ONE).await.unwrap();
        assert_eq!(
            (verdict.source, verdict.admitted),
            (Source::Fallback, false)
        );
        assert_eq!(verdict.plans.len(), plans.len());
        assert!(!verdict.plans[plans.len() - 1].admits);
        assert_eq!(verdict.retry_after, small.limit().window());
    }
    let [gold, small] = chain;
    let trial = [small.in_shadow(), gold];
    let verdict = guarded
        .try_acquire(&key(), &trial, Cost::ONE)
        .await
        .unwrap();
    let admits: Vec<_> = verdict.plans.iter().map(|plan| plan.admits).collect();
    assert_eq!(
        (verdict.admitted, admits),
        (true, vec![false, true]),
        "nothing was charged before"
    );
}
