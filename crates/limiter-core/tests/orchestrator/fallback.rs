//! The fallback, by the failure policy and as a decorator of a store.

use std::sync::Arc;

use limiter_core::mock::{MockObserver, MockRateLimiterRepository};
use limiter_core::{
    Cost, Decision, DefaultRateLimiter, FailurePolicy, FallbackRepository, InMemoryPlanRegistry,
    InvalidRequest, LocalStore, Outcome, Plan, RateLimiter, RateLimiterRepository, Share, Source,
    StoreError,
};
use limiter_testkit::ModelStore;

use crate::{admits, failing, key, local_quarter, outage, verdict};

/// Limiters whose shared store is away, with `local` beside it: by the failure policy, and by the
/// decorator under the policy that there is if nobody chooses one, to fail open.
fn both_ways(
    plans: &[Plan],
    local: impl Fn() -> Arc<dyn RateLimiterRepository>,
    nodes: u32,
) -> [DefaultRateLimiter; 2] {
    let local = || LocalStore::new(local(), Share::of_nodes(nodes).unwrap());
    let plans = Arc::new(InMemoryPlanRegistry::new(plans.to_vec()).unwrap());
    let by_policy = DefaultRateLimiter::new(plans.clone(), failing(outage));
    let decorated = FallbackRepository::new(failing(outage), local());
    [
        by_policy.with_failure_policy(FailurePolicy::Fallback(local())),
        DefaultRateLimiter::new(plans, Arc::new(decorated)),
    ]
}

fn own_model() -> Arc<dyn RateLimiterRepository> {
    Arc::new(ModelStore::new())
}

async fn spend(limiter: &DefaultRateLimiter, plans: &[Plan], units: u32) -> Decision {
    let names: Vec<_> = plans.iter().map(|plan| plan.name().clone()).collect();
    let cost = Cost::new(units).unwrap();
    limiter.check(&key(), &names, cost).await.unwrap()
}

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

#[tokio::test]
async fn what_is_reset_is_forgotten_by_the_local_store_too() {
    let plans = [Plan::new("gold", "1/h burst 4").unwrap()];
    let names = [plans[0].name().clone()];
    for limiter in both_ways(&plans, own_model, 4) {
        assert!(spend(&limiter, &plans, 1).await.is_allowed());
        assert!(!spend(&limiter, &plans, 1).await.is_allowed());
        let unconfirmed = limiter.reset(&key(), &names).await;
        assert!(unconfirmed.is_err(), "the shared store is away");
        assert!(spend(&limiter, &plans, 1).await.is_allowed());
    }
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

/// Of `10/min` each of 8 nodes grants 2, which a request of 3 never fits in.
#[tokio::test]
async fn a_cost_above_the_share_is_denied_by_policy_and_decorator() {
    let plans = [Plan::new("gold", "10/min").unwrap()];
    for limiter in both_ways(&plans, own_model, 8) {
        for _ in 0..100 {
            let denied = spend(&limiter, &plans, 3).await;
            let denial = denied.denial().unwrap();
            assert_eq!(
                (denial.plan.as_str(), denied.source()),
                ("gold", Source::Fallback)
            );
            assert_eq!(denial.retry_after, plans[0].limit().window());
        }
        let allowed = spend(&limiter, &plans, 2).await;
        assert!(allowed.is_allowed(), "nothing was charged before");
    }
}

#[tokio::test]
async fn a_shadow_plan_of_which_the_share_is_below_the_cost_changes_nothing() {
    let gold = Plan::new("gold", "1000/min").unwrap();
    let trial = Plan::new("trial", "10/min").unwrap().in_shadow();
    let cost = Cost::new(3).unwrap();
    for plans in [[gold.clone(), trial.clone()], [trial, gold]] {
        for limiter in both_ways(&plans, own_model, 8) {
            let mut allowed = spend(&limiter, &plans, 3).await;
            assert!(allowed.is_allowed(), "{allowed}");
            assert_eq!(allowed.source(), Source::Fallback);
            for told in allowed.plans() {
                assert_eq!(told.admits, told.plan.is_enforced(), "{allowed}");
            }
            // The plan in shadow was not charged, and the other one is given back all the same.
            let mut receipt = allowed.take_receipt().unwrap();
            let back = limiter.refund(&mut receipt, cost).await.unwrap();
            for told in back.plans() {
                let share = if told.plan.is_enforced() { 125 } else { 2 };
                assert_eq!((told.admits, told.remaining), (true, share), "{back}");
            }
        }
    }
}

#[tokio::test]
async fn a_look_at_a_cost_above_the_share_says_what_a_request_would_get() {
    let plans = [
        Plan::new("gold", "1000/min").unwrap(),
        Plan::new("trial", "10/min").unwrap(),
    ];
    let local = LocalStore::new(own_model(), Share::of_nodes(8).unwrap());
    let guarded = FallbackRepository::new(failing(outage), local);
    let cost = Cost::new(3).unwrap();
    let looked = guarded.peek(&key(), &plans, cost).await.unwrap();
    let asked = guarded.try_acquire(&key(), &plans, cost).await.unwrap();
    assert_eq!(looked, asked);
    let admits: Vec<_> = looked.plans.iter().map(|plan| plan.admits).collect();
    assert_eq!((looked.admitted, admits), (false, vec![true, false]));
    assert_eq!(looked.plans[0].remaining, 125, "nothing was charged");
}

/// The decorator has taken the request on: what is further out must not let it pass.
#[tokio::test]
async fn a_local_store_that_fails_turns_requests_away_by_policy_and_decorator() {
    let full = || StoreError::Full { max_keys: 3 };
    let plans = [
        Plan::new("gold", "10/s").unwrap(),
        Plan::new("yearly", "5/366d").unwrap(),
    ];
    for error in [outage, full as fn() -> StoreError] {
        for plans in [&plans[..1], &plans[..]] {
            for limiter in both_ways(plans, || failing(error), 8) {
                let away = spend(&limiter, plans, 1).await;
                assert_eq!(
                    (away.outcome(), away.source()),
                    (&Outcome::Unavailable, Source::FailClosed)
                );
                assert!(away.plans().is_empty());
            }
        }
    }
}

#[tokio::test]
async fn the_decorator_tells_of_both_stores_that_failed() {
    let mut observer = MockObserver::new();
    for kind in ["unavailable", "full"] {
        let seen = observer.expect_store_failed();
        seen.withf(move |error| error.kind() == kind)
            .times(1)
            .return_const(());
    }
    let local = failing(|| StoreError::Full { max_keys: 3 });
    let local = LocalStore::new(local, Share::of_nodes(4).unwrap());
    let guarded = FallbackRepository::new(failing(outage), local).with_observer(Arc::new(observer));
    let plans = [Plan::new("gold", "10/s").unwrap()];
    let verdict = guarded
        .try_acquire(&key(), &plans, Cost::ONE)
        .await
        .unwrap();
    assert_eq!(
        (verdict.source, verdict.admitted),
        (Source::FailClosed, false)
    );
    assert_eq!(verdict.plans.len(), 1);
}

/// A shared store that is away says nothing of the request, and a bad one is the caller's mistake.
#[tokio::test]
async fn a_bad_call_is_refused_while_the_shared_store_is_away() {
    let gold = Plan::new("gold", "10/s").unwrap();
    let local = LocalStore::new(own_model(), Share::of_nodes(4).unwrap());
    let guarded = FallbackRepository::new(failing(outage), local);
    let twice = [gold.clone(), gold];
    for (plans, units) in [(&twice[..0], 1), (&twice[..], 1), (&twice[..1], 11)] {
        let cost = Cost::new(units).unwrap();
        let spent = guarded.try_acquire(&key(), plans, cost).await;
        assert!(matches!(spent, Err(StoreError::Request(_))), "{spent:?}");
        let looked = guarded.peek(&key(), plans, cost).await;
        assert!(matches!(looked, Err(StoreError::Request(_))), "{looked:?}");
    }
}
