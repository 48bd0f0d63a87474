//! [`InProcessRepository`]: a store that never waits.

use crate::{Cost, Key, Plan, StoreError, Verdict};

/// A [`RateLimiterRepository`](crate::RateLimiterRepository) that never waits, asked without a future.
pub trait InProcessRepository: Send + Sync {
    /// Does what [`try_acquire`](crate::RateLimiterRepository::try_acquire) does, on the same state.
    ///
    /// # Errors
    /// As [`try_acquire`](crate::RateLimiterRepository::try_acquire).
    fn try_acquire_at_once(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError>;

    /// Spends `cost` under `key`, if `plan` has at least one unit more than that, and says no more than that it did. If it returns
    /// `false` it has changed nothing, and [`try_acquire_at_once`](Self::try_acquire_at_once) decides: the plan has not that much, or
    /// to find out takes longer.
    ///
    /// Unless implemented, it returns `false`.
    fn spend_if_plenty(&self, _key: &Key, _plan: &Plan, _cost: Cost) -> bool {
        false
    }
}
