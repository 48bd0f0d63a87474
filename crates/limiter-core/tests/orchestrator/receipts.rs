//! What can be given back: only what a store charged, once, and to the store that charged it.

use std::sync::Arc;
use std::task::{Context, Waker};

use async_trait::async_trait;
use limiter_core::mock::MockRateLimiterRepository;
use limiter_core::{
    BreakerMode, Charge, CheckError, CircuitBreaker, Clock, Cost, DefaultRateLimiter,
    FailurePolicy, FallbackRepository, InMemoryPlanRegistry, InvalidRequest, Key, LocalStore, Plan,
    RateLimiter, RateLimiterRepository, Receipt, Refund, Share, Source, StoreError, Timestamp,
    Verdict,
};
use limiter_testkit::{ManualClock, ManualRandom, ModelStore};

use crate::{
    admits, answering, charged, denies, failing, key, names, outage, receipt, registry, verdict,
};

const MOMENT: Timestamp = Timestamp::EPOCH;

fn cost(units: u32) -> Cost {
    Cost::new(units).unwrap()
}

/// How a refund fails, if it does.
type Failure = fn() -> Option<StoreError>;

/// A store that charges, and answers refunds as `error` says; fine if it says nothing.
fn giving_back(error: Failure, times: usize) -> Arc<MockRateLimiterRepository> {
    let mut store = MockRateLimiterRepository::new();
    store
        .expect_try_acquire()
        .returning(|_, _, _| Ok(verdict(true, &[charged(4, MOMENT)])));
    store
        .expect_refund()
        .times(times)
        .returning(move |_, _, refund| match error() {
            Some(error) => Err(error),
            None => Ok(verdict(
                true,
                &[admits(4 + refund.given_back + refund.units.get())],
            )),
        });
    Arc::new(store)
}

#[tokio::test]
async fn a_charge_has_one_receipt_and_a_clone_of_its_decision_has_none() {
    let limiter = DefaultRateLimiter::new(registry(), giving_back(|| None, 0));
    let decision = limiter.check(&key(), &names(&["gold"]), cost(6)).await;
    let mut decision = decision.unwrap();
    let mut clone = decision.clone();
    assert_eq!(clone, decision);
    assert_eq!(clone.take_receipt(), None);
    let receipt = decision.take_receipt().unwrap();
    assert_eq!(
        (receipt.key(), receipt.plans()),
        (&key(), &names(&["gold"])[..])
    );
    assert_eq!(
        (receipt.source(), receipt.charged()),
        (Source::Store, cost(6))
    );
    assert_eq!(receipt.left(), Some(cost(6)));
    assert_eq!(decision.take_receipt(), None, "taken twice");
    assert_eq!(clone, decision);
}

#[tokio::test]
async fn what_nobody_charged_has_no_receipt() {
    let denied = answering(verdict(false, &[denies(100, 1)]));
    let denying = DefaultRateLimiter::new(registry(), denied);
    assert_eq!(receipt(&denying, &["gold"], 1).await, None);
    for policy in [FailurePolicy::FailOpen, FailurePolicy::FailClosed] {
        let limiter = DefaultRateLimiter::new(registry(), failing(outage));
        let limiter = limiter.with_failure_policy(policy);
        assert_eq!(receipt(&limiter, &["gold"], 1).await, None);
    }
    let in_shadow_alone = answering(verdict(true, &[denies(100, 1)]));
    let limiter = DefaultRateLimiter::new(registry(), in_shadow_alone);
    assert_eq!(receipt(&limiter, &["trial"], 1).await, None);
    let limiter = DefaultRateLimiter::new(registry(), Arc::new(ModelStore::new()));
    let mut peeked = limiter
        .peek(&key(), &names(&["gold"]), Cost::ONE)
        .await
        .unwrap();
    assert_eq!(peeked.take_receipt(), None);
    let mut receipt = receipt(&limiter, &["gold"], 1).await.unwrap();
    let mut refunded = limiter.refund(&mut receipt, Cost::ONE).await.unwrap();
    assert_eq!(refunded.take_receipt(), None);
}

#[tokio::test]
async fn refunds_add_up_and_no_store_is_asked_for_more_than_was_charged() {
    let limiter = DefaultRateLimiter::new(registry(), giving_back(|| None, 2));
    let mut receipt = receipt(&limiter, &["gold"], 6).await.unwrap();
    let decision = limiter.refund(&mut receipt, cost(2)).await.unwrap();
    assert_eq!(decision.plans()[0].remaining, 6);
    let error = limiter.refund(&mut receipt, cost(5)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "refund of 5 is more than the 4 that are left of the charge: refund at most that"
    );
    assert_eq!(receipt.left(), Some(cost(4)));
    let decision = limiter.refund(&mut receipt, cost(4)).await.unwrap();
    assert_eq!(decision.plans()[0].remaining, 10);
    assert_eq!(receipt.left(), None);
    let error = limiter.refund(&mut receipt, Cost::ONE).await.unwrap_err();
    let too_large = |error: &CheckError| {
        matches!(
            error,
            CheckError::Request(InvalidRequest::RefundTooLarge { left: 0, .. })
        )
    };
    assert!(too_large(&error), "{error:?}");
}

/// A refund that failed can be asked for again, unless the store may have given the units back.
#[tokio::test]
async fn what_may_have_been_given_back_is_gone_from_the_receipt() {
    let cases: [(Failure, u32); 2] = [
        (
            || Some(StoreError::unavailable(Charge::Impossible, "refused")),
            6,
        ),
        (
            || Some(StoreError::unavailable(Charge::Possible, "reset")),
            4,
        ),
    ];
    for (error, left) in cases {
        let limiter = DefaultRateLimiter::new(registry(), giving_back(error, 1));
        let mut receipt = receipt(&limiter, &["gold"], 6).await.unwrap();
        let failed = limiter.refund(&mut receipt, cost(2)).await.unwrap_err();
        assert!(matches!(failed, CheckError::Store(_)));
        assert_eq!(receipt.left(), Some(cost(left)));
    }
}

/// A store that charges at once, and takes for ever to give back.
struct Hangs;

#[async_trait]
impl RateLimiterRepository for Hangs {
    async fn try_acquire(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        Ok(verdict(true, &[charged(4, MOMENT)]))
    }

    async fn peek(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        unreachable!("nobody looks")
    }

    async fn refund(&self, _: &Key, _: &[Plan], _: &Refund) -> Result<Verdict, StoreError> {
        std::future::pending().await
    }

    async fn reset(&self, _: &Key, _: &[Plan]) -> Result<(), StoreError> {
        unreachable!("nothing is reset")
    }
}

#[tokio::test]
async fn a_refund_that_was_dropped_is_gone_from_the_receipt() {
    let limiter = DefaultRateLimiter::new(registry(), Arc::new(Hangs));
    let mut receipt = receipt(&limiter, &["gold"], 6).await.unwrap();
    let mut never = limiter.refund(&mut receipt, cost(2));
    let mut nobody = Context::from_waker(Waker::noop());
    assert!(never.as_mut().poll(&mut nobody).is_pending());
    drop(never);
    assert_eq!(receipt.left(), Some(cost(4)));
}

/// A plan that was removed since cannot be given anything back, and costs the receipt nothing.
#[tokio::test]
async fn a_plan_that_is_no_longer_registered_is_told() {
    let plans = registry();
    let limiter = DefaultRateLimiter::new(plans.clone(), giving_back(|| None, 0));
    let mut receipt = receipt(&limiter, &["gold"], 6).await.unwrap();
    plans.remove(&names(&["gold"])[0]);
    let error = limiter.refund(&mut receipt, cost(2)).await.unwrap_err();
    assert!(matches!(error, CheckError::UnknownPlan(_)));
    assert_eq!(receipt.left(), Some(cost(6)));
}

/// A store that is away while its switch says so, with a local store beside it: by the failure policy, or by the decorator.
struct Guarded {
    limiter: DefaultRateLimiter,
    shared: Arc<ModelStore>,
    local: Arc<ModelStore>,
    breaker: Arc<CircuitBreaker>,
}

impl Guarded {
    fn new(by_policy: bool) -> Self {
        let (shared, own) = (Arc::new(ModelStore::new()), Arc::new(ModelStore::new()));
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new());
        let random = Arc::new(ManualRandom::default());
        let store: Arc<dyn RateLimiterRepository> = shared.clone();
        let breaker = Arc::new(CircuitBreaker::new(store, clock, random));
        let local = LocalStore::new(own.clone(), Share::of_nodes(2).unwrap());
        let limiter = if by_policy {
            let limiter = DefaultRateLimiter::new(registry(), breaker.clone());
            limiter.with_failure_policy(FailurePolicy::Fallback(local))
        } else {
            let store = FallbackRepository::new(breaker.clone(), local);
            DefaultRateLimiter::new(registry(), Arc::new(store))
        };
        Self {
            limiter,
            shared,
            local: own,
            breaker,
        }
    }

    fn set_away(&self, away: bool) {
        self.breaker.set_mode(if away {
            BreakerMode::ForcedOpen
        } else {
            BreakerMode::Automatic
        });
    }

    async fn spend(&self, units: u32) -> Receipt {
        receipt(&self.limiter, &["gold"], units).await.unwrap()
    }

    /// What is left in the shared store, of 10, and in the local one, of 5.
    async fn left(&self) -> (u32, u32) {
        let left = async |store: &ModelStore, limit: &str| {
            let gold = [Plan::new("gold", limit).unwrap()];
            let verdict = store.peek(&key(), &gold, Cost::ONE).await.unwrap();
            verdict.plans.first().unwrap().remaining
        };
        let shared = left(&self.shared, "10/s").await;
        (shared, left(&self.local, "10/2s burst 5").await)
    }
}

#[tokio::test]
async fn what_a_store_charged_goes_back_to_that_store_alone() {
    for by_policy in [true, false] {
        let guarded = Guarded::new(by_policy);
        let mut of_shared = guarded.spend(6).await;
        guarded.set_away(true);
        let mut of_local = guarded.spend(4).await;
        assert_eq!(
            (of_shared.source(), of_local.source()),
            (Source::Store, Source::Fallback)
        );
        assert_eq!(guarded.left().await, (4, 1), "by_policy = {by_policy}");

        // The shared store is away, and the local one is not given its units.
        let failed = guarded.limiter.refund(&mut of_shared, cost(6)).await;
        assert!(
            matches!(failed, Err(CheckError::Store(_))),
            "by_policy = {by_policy}"
        );
        let decision = guarded
            .limiter
            .refund(&mut of_local, cost(2))
            .await
            .unwrap();
        assert_eq!(decision.source(), Source::Fallback);
        assert_eq!(guarded.left().await, (4, 3), "by_policy = {by_policy}");

        // It is back, and what the local one charged is still the local one's.
        guarded.set_away(false);
        let _ = guarded
            .limiter
            .refund(&mut of_local, cost(2))
            .await
            .unwrap();
        assert_eq!(guarded.left().await, (4, 5), "by_policy = {by_policy}");
        let decision = guarded
            .limiter
            .refund(&mut of_shared, cost(6))
            .await
            .unwrap();
        assert_eq!(decision.source(), Source::Store);
        assert_eq!(guarded.left().await, (10, 5), "by_policy = {by_policy}");
    }
}

/// A share can be too small for a plan in shadow: it was not charged, and the others are given back all the same.
#[tokio::test]
async fn a_chain_of_which_a_share_is_too_small_is_given_back() {
    let plans = [
        Plan::new("yearly", "5/366d").unwrap().in_shadow(),
        Plan::new("gold", "10/s").unwrap(),
    ];
    let plans = Arc::new(InMemoryPlanRegistry::new(plans).unwrap());
    let share = Share::of_nodes(10).unwrap();
    let local = LocalStore::new(Arc::new(ModelStore::new()), share);
    let limiter = DefaultRateLimiter::new(plans, failing(outage))
        .with_failure_policy(FailurePolicy::Fallback(local));
    let mut receipt = receipt(&limiter, &["yearly", "gold"], 1).await.unwrap();
    let decision = limiter.refund(&mut receipt, Cost::ONE).await.unwrap();
    let left: Vec<u32> = decision.plans().iter().map(|plan| plan.remaining).collect();
    assert_eq!(left, [0, 1]);
}

/// Nobody answers for a local store that fails, and what it may have given back is gone.
#[tokio::test]
async fn a_local_store_that_does_not_confirm_a_refund_is_told() {
    let local = LocalStore::new(
        giving_back(|| Some(outage()), 1),
        Share::of_nodes(1).unwrap(),
    );
    let limiter = DefaultRateLimiter::new(registry(), failing(outage))
        .with_failure_policy(FailurePolicy::Fallback(local));
    let mut receipt = receipt(&limiter, &["gold"], 6).await.unwrap();
    assert_eq!(receipt.source(), Source::Fallback);
    let error = limiter.refund(&mut receipt, cost(2)).await.unwrap_err();
    assert!(matches!(error, CheckError::Store(_)), "{error:?}");
    assert_eq!(receipt.left(), Some(cost(4)));
}

#[tokio::test]
async fn a_receipt_of_a_local_store_is_no_good_elsewhere() {
    let guarded = Guarded::new(true);
    guarded.set_away(true);
    let mut receipt = guarded.spend(4).await;
    let elsewhere = DefaultRateLimiter::new(registry(), giving_back(|| None, 0));
    let error = elsewhere.refund(&mut receipt, cost(4)).await.unwrap_err();
    assert!(matches!(
        error,
        CheckError::Request(InvalidRequest::ForeignReceipt)
    ));
    assert_eq!(receipt.left(), Some(cost(4)));
}
