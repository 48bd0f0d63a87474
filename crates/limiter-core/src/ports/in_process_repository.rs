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
}
