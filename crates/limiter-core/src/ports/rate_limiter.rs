//! [`RateLimiter`]: the inbound port that services call.

use async_trait::async_trait;

use crate::{CheckError, Cost, Decision, Key, PlanName};

/// Decides requests under named plans.
///
/// A denial is a value. An error is the caller's own mistake, or (for `peek`, `refund` and `reset`, which no policy can
/// answer for) a store that failed.
///
/// # Cancel safety
/// A dropped call may still take effect, once.
#[cfg_attr(any(test, feature = "mock"), mockall::automock)]
#[async_trait]
pub trait RateLimiter: Send + Sync {
    /// Spends `cost` under `key` if every enforced one of `plans` allows it.
    ///
    /// # Errors
    /// [`CheckError`] for an unknown plan or a call that can never be answered. A store that fails is no error here: the
    /// failure policy decides.
    async fn check(
        &self,
        key: &Key,
        plans: &[PlanName],
        cost: Cost,
    ) -> Result<Decision, CheckError>;

    /// Says what [`check`](Self::check) would decide, and changes nothing.
    ///
    /// # Errors
    /// [`CheckError`], also if the store failed.
    async fn peek(&self, key: &Key, plans: &[PlanName], cost: Cost)
    -> Result<Decision, CheckError>;

    /// Gives `cost` back under each of `plans`, at most what is spent, and says how they stand.
    ///
    /// # Errors
    /// [`CheckError`], also if the store failed.
    async fn refund(
        &self,
        key: &Key,
        plans: &[PlanName],
        cost: Cost,
    ) -> Result<Decision, CheckError>;

    /// Forgets what `key` spent under each of `plans`.
    ///
    /// # Errors
    /// [`CheckError`], also if the store failed.
    async fn reset(&self, key: &Key, plans: &[PlanName]) -> Result<(), CheckError>;
}
