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
