//! Checks that borrow nothing.

use std::sync::Arc;

use limiter_core::mock::{MockObserver, MockRateLimiterRepository};
use limiter_core::{
    Cost, DefaultRateLimiter, FailurePolicy, InvalidRequest, LocalStore, RateLimiter, Share,
};

use crate::{admits, answering, denies, failing, key, names, outage, registry, verdict};

/// Every limiter here is asked in both forms, about every chain: whatever the answer is, it is the same.
#[tokio::test]
async fn a_detached_check_decides_as_a_check_does() {
    let stores = [
        answering(verdict(true, &[admits(9)])),
        answering(verdict(false, &[denies(100, 1)])),
        answering(verdict(true, &[])),
        answering(verdict(true, &[admits(9), admits(999)])),
        answering(verdict(true, &[admits(9), denies(5_000, 3)])),
        answering(verdict(false, &[denies(100, 1), denies(5_000, 3)])),
        failing(outage),
        failing(|| InvalidRequest::NoPlans.into()),
    ];
    let chains = [
        vec!["gold"],
        vec!["gold", "daily"],
        vec!["trial"],
        vec!["gold", "trial"],
        vec![],
        vec!["glod"],
        vec!["gold", "glod"],
        vec!["gold", "GOLD"],
    ];
    let local = |store| LocalStore::new(store, Share::of_nodes(4).unwrap());
    let policies = [
        FailurePolicy::FailOpen,
        FailurePolicy::FailClosed,
        FailurePolicy::Fallback(local(answering(verdict(true, &[admits(2), admits(1)])))),
        FailurePolicy::Fallback(local(answering(verdict(false, &[denies(70, 1)])))),
        FailurePolicy::Fallback(local(failing(outage))),
    ];
    for store in &stores {
        for policy in policies.clone() {
            let limiter = DefaultRateLimiter::new(registry(), Arc::clone(store));
            let limiter = Arc::new(limiter.with_failure_policy(policy));
            for (chain, cost) in chains.iter().flat_map(|chain| [(chain, 1), (chain, 11)]) {
                let (chain, cost) = (names(chain), Cost::new(cost).unwrap());
                let checked = limiter.check(&key(), &chain, cost).await;
                let detached = Arc::clone(&limiter)
                    .check_detached(key(), &chain, cost)
                    .await;
                assert_eq!(format!("{detached:?}"), format!("{checked:?}"));
            }
        }
    }
}

#[tokio::test]
async fn a_detached_check_is_seen_once_and_spends_nothing_before_it_is_polled() {
    let mut observer = MockObserver::new();
    observer.expect_decided().times(1).return_const(());
    let mut store = MockRateLimiterRepository::new();
    store
        .expect_try_acquire()
        .times(1)
        .returning(|_, _, _| Ok(verdict(true, &[admits(9)])));
    let limiter = DefaultRateLimiter::new(registry(), Arc::new(store));
    let limiter = Arc::new(limiter.with_observer(Arc::new(observer)));
    drop(Arc::clone(&limiter).check_detached(key(), &names(&["gold"]), Cost::ONE));
    let polled = limiter.check_detached(key(), &names(&["gold"]), Cost::ONE);
    assert!(polled.await.unwrap().is_allowed());
}
