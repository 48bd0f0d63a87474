//! [`RateLimiter`]: the inbound port that services call.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;

use crate::{CheckError, Cost, Decision, Key, PlanName, Receipt};

/// Decides requests under named plans.
///
/// A denial is a value. An error is the caller's own mistake, a store that is set up wrongly, or (for `peek`, `refund` and `reset`,
/// which no policy can answer for) a store that failed.
///
/// # Cancel safety
/// A dropped call may still take effect, once.
///
/// # Examples
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use limiter_core::{Cost, DefaultRateLimiter, InMemoryPlanRegistry, Key, Plan, PlanName, RateLimiter};
/// # use limiter_testkit::{ModelStore, block_on};
/// let plans = InMemoryPlanRegistry::new([Plan::new("gold", "1/s burst 2")?])?;
/// let limiter: Arc<dyn RateLimiter> = Arc::new(DefaultRateLimiter::new(Arc::new(plans), Arc::new(ModelStore::new())));
/// let (ada, gold) = (Key::new("ada")?, [PlanName::new("gold")?]);
/// # block_on(async {
/// let mut decision = limiter.check(&ada, &gold, Cost::new(2)?).await?;
/// assert!(decision.is_allowed());
/// assert_eq!(limiter.peek(&ada, &gold, Cost::ONE).await?.retry_after(), Some(Duration::from_secs(1)));
/// let mut receipt = decision.take_receipt().ok_or("denied")?;
/// assert_eq!(limiter.refund(&mut receipt, Cost::ONE).await?.plans()[0].remaining, 1);
/// limiter.reset(&ada, &gold).await?;
/// assert!(limiter.check(&ada, &gold, Cost::new(2)?).await?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[async_trait]
pub trait RateLimiter: Send + Sync {
    /// Spends `cost` under `key` if every enforced one of `plans` allows it.
    ///
    /// # Errors
    /// [`CheckError`] for an unknown plan, a call that can never be answered, or a store that is set up wrongly. A store that is away
    /// is no error here: the failure policy decides.
    ///
    /// # Cancel safety
    /// A dropped call may still have spent `cost`; it never spends twice.
    async fn check(
        &self,
        key: &Key,
        plans: &[PlanName],
        cost: Cost,
    ) -> Result<Decision, CheckError>;

    /// Does what [`check`](Self::check) does, without a future, if that never waits. Returns `None`, having asked nothing of the
    /// store, if it may have to wait.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    fn check_at_once(
        &self,
        _key: &Key,
        _plans: &[PlanName],
        _cost: Cost,
    ) -> Option<Result<Decision, CheckError>> {
        None
    }

    /// Spends `cost` under `key` and says no more than that it did, if to find out never waits, every one of `plans` has at least one
    /// unit more than that, and no observer has to see a decision: for callers who need not know how the plans stand. If it returns
    /// `false` it has changed nothing, and [`check`](Self::check) decides.
    ///
    /// Unless implemented, it returns `false`.
    fn spend_if_plenty(&self, _key: &Key, _plans: &[PlanName], _cost: Cost) -> bool {
        false
    }

    /// Does what [`check`](Self::check) does, as a future that borrows nothing: for callers that keep it beyond their own call,
    /// such as a tower service. Plans may be looked up before the future is polled; nothing is spent before.
    ///
    /// Unless implemented, it is [`check`](Self::check) in a box of its own. A limiter that implements it saves that box.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    ///
    /// # Cancel safety
    /// As [`check`](Self::check); a future that was never polled has spent nothing.
    fn check_detached(
        self: Arc<Self>,
        key: Key,
        plans: &[PlanName],
        cost: Cost,
    ) -> Pin<Box<dyn Future<Output = Result<Decision, CheckError>> + Send>>
    where
        Self: 'static,
    {
        let plans = plans.to_vec();
        Box::pin(async move { self.check(&key, &plans, cost).await })
    }

    /// Says what [`check`](Self::check) would decide, and changes nothing.
    ///
    /// # Errors
    /// [`CheckError`], also if the store failed.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    async fn peek(&self, key: &Key, plans: &[PlanName], cost: Cost)
    -> Result<Decision, CheckError>;

    /// Gives `units` of a charge back, to the store that made it, and says how the plans then stand for a request of one unit.
    ///
    /// Only what this very charge still takes up is given back: nothing of what a bucket has refilled since, and nothing of a
    /// window that has passed. Refunds add up, in the receipt, to at most what was charged.
    ///
    /// # Errors
    /// [`CheckError`]: more is asked for than is left of the receipt, a plan is no longer registered, or the store failed. If
    /// the store may have given the units back, they are gone from the receipt.
    ///
    /// # Cancel safety
    /// A dropped call may still have given `units` back, once. They are gone from the receipt.
    async fn refund(&self, receipt: &mut Receipt, units: Cost) -> Result<Decision, CheckError>;

    /// Forgets what `key` spent under each of `plans`.
    ///
    /// # Errors
    /// [`CheckError`], also if the store failed.
    ///
    /// # Cancel safety
    /// A dropped call may still have reset what it names.
    async fn reset(&self, key: &Key, plans: &[PlanName]) -> Result<(), CheckError>;
}

#[cfg(any(test, feature = "mock"))]
mockall::mock! {
    /// A [`RateLimiter`] that answers as it is told.
    pub RateLimiter {}

    #[async_trait]
    impl RateLimiter for RateLimiter {
        async fn check(&self, key: &Key, plans: &[PlanName], cost: Cost) -> Result<Decision, CheckError>;
        async fn peek(&self, key: &Key, plans: &[PlanName], cost: Cost) -> Result<Decision, CheckError>;
        async fn refund(&self, receipt: &mut Receipt, units: Cost) -> Result<Decision, CheckError>;
        async fn reset(&self, key: &Key, plans: &[PlanName]) -> Result<(), CheckError>;
    }
}
