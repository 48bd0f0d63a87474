//! [`StoreStats`]: the outbound port to how full a store is.

use async_trait::async_trait;
use limiter_core::StoreError;

use crate::StoreReport;

/// Tells how full a store is. For dashboards, not for the path of a request.
#[cfg_attr(any(test, feature = "mock"), mockall::automock)]
#[async_trait]
pub trait StoreStats: Send + Sync {
    /// Counts what is kept, looking at about `keys_max` keys of each node at most. A store with a deadline counts until then: give
    /// one that counts many keys a longer deadline than one that serves requests.
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no answer.
    ///
    /// # Cancel safety
    /// Nothing is changed; a dropped call counts no further.
    async fn stats(&self, keys_max: u32) -> Result<StoreReport, StoreError>;
}
