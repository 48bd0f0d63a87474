//! [`RateLimiterRepository`]: the outbound port to the state that all nodes share.

use async_trait::async_trait;

use crate::{Cost, InProcessRepository, Key, Plan, Refund, StoreError, Verdict};

/// Keeps limiter state where every node that shares it can reach it.
///
/// # Contract
/// Each line is a law of `limiter-testkit`; a store adopts them all with one macro.
/// - One call is one atomic step over all its plans: racing callers MUST NOT both get the last unit.
/// - A denied call MUST leave the state as it was, but for what a suppressing window observes.
/// - Expiry only frees memory: an entry that outlives its time to live MUST NOT change an answer. Nothing of an idle key
///   stays behind.
/// - The answer carries one [`PlanVerdict`](crate::PlanVerdict) for each plan, in order, with the moment of the charge. No
///   second read is needed.
/// - A call MUST answer or fail before its deadline, whatever the store does. [`DeadlineRepository`](crate::DeadlineRepository)
///   sees to it for a store whose client may hang.
/// - A call that may have run MUST NOT be tried again by the store; its error says [`Charge::Possible`](crate::Charge).
/// - Time comes from one clock that all callers share. When it steps back, it counts as standing still.
/// - A plan with other numbers under the same name keeps what was spent; one of another algorithm starts afresh and says
///   so in [`PlanVerdict::restarted`](crate::PlanVerdict::restarted).
/// - What is given back MUST be units of the charge that the [`Refund`] names: never more than was charged, and nothing that
///   others spent. A plan that it says was not charged gets nothing back.
/// - A call that [`check_request`](crate::check_request) or [`check_refund`](crate::check_refund) refuses MUST fail with
///   [`StoreError::Request`] and change nothing.
///
/// No law can look at what a store writes, but this belongs to the contract, too: a store that is shared MUST write at most 4 KB
/// for each plan of a call, names included, however hard a key is hammered; for a denied call nothing, but for what a suppressing
/// window observes. The limits of windows see to it that a state is no longer than that.
///
/// # Cancel safety
/// A dropped call may still take effect, once. It never takes effect twice, and never leaves a half-made state.
#[async_trait]
pub trait RateLimiterRepository: Send + Sync {
    /// Spends `cost` under `key` if every enforced plan of `plans` allows it.
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no verdict; it says whether the cost may have been spent.
    ///
    /// # Cancel safety
    /// A dropped call may still have spent `cost` under all plans; it never spends twice, nor under some of them.
    async fn try_acquire(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError>;

    /// Says what [`try_acquire`](Self::try_acquire) would answer, and changes nothing.
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no verdict.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError>;

    /// Gives units of one charge back under each of `plans` that it was made under, and says how they then stand for a request
    /// of one unit.
    ///
    /// - A token bucket gets back at most what is left of the charge: less what was given back before, and less what was
    ///   refilled since.
    /// - A sliding or suppressing window gets back units of the sub-bucket that the charge is in; none once a whole window has
    ///   passed since the charge.
    /// - A fixed window gets them back only while it is the window that was charged.
    ///
    /// Nothing that others spent is ever freed, with one exception: what was spent after the state
    /// of the charge was gone or was read anew, because of a [`reset`](Self::reset), a plan that
    /// changed, or a store that lost it. At most as much as was charged is freed.
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no verdict; it says whether the units may have been given back.
    ///
    /// # Cancel safety
    /// A dropped call may still have given the units back, once.
    async fn refund(
        &self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
    ) -> Result<Verdict, StoreError>;

    /// Forgets what `key` spent under each of `plans`.
    ///
    /// # Errors
    /// [`StoreError`] if the store did not confirm it.
    ///
    /// # Cancel safety
    /// A dropped call may still have reset what it names.
    async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError>;

    /// Returns this store as one that never waits, if it is one: who asks it so saves a future for each request.
    ///
    /// A decorator MUST NOT answer for the store inside of it: it would be passed over.
    fn in_process(&self) -> Option<&dyn InProcessRepository> {
        None
    }
}

#[cfg(any(test, feature = "mock"))]
mockall::mock! {
    /// A [`RateLimiterRepository`] that answers as it is told.
    pub RateLimiterRepository {}

    #[async_trait]
    impl RateLimiterRepository for RateLimiterRepository {
        async fn try_acquire(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError>;
        async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError>;
        async fn refund(&self, key: &Key, plans: &[Plan], refund: &Refund) -> Result<Verdict, StoreError>;
        async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError>;
    }
}
