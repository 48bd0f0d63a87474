//! [`AnomalyFeed`]: the outbound port to anomalies.

use async_trait::async_trait;
use limiter_core::{StoreError, Timestamp};

use crate::{Anomaly, Reported, Retention, Severity};

/// How many anomalies of a severity are kept: the newest.
pub const FEED_MAX: usize = 1000;
/// How long an anomaly is kept at most.
pub const FEED_RETENTION: Retention = Retention::DAY;

/// Keeps the newest anomalies, each severity by itself.
///
/// # Contract
/// - Of each severity exactly the newest [`FEED_MAX`] are kept, for [`FEED_RETENTION`].
/// - Anomalies that are alike are kept each.
/// - They come back in the order in which they were taken in, the newest first; times do not rise on the way.
#[cfg_attr(any(test, feature = "mock"), mockall::automock)]
#[async_trait]
pub trait AnomalyFeed: Send + Sync {
    /// Takes an anomaly in.
    ///
    /// # Errors
    /// [`StoreError`] if the store did not confirm it; it says whether it may have been taken in.
    ///
    /// # Cancel safety
    /// A dropped call may still take effect, once.
    async fn push(&self, anomaly: &Anomaly) -> Result<(), StoreError>;

    /// Returns the newest `limit` anomalies of a severity that were reported at `since` or later, the newest first.
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no answer.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    async fn recent(
        &self,
        severity: Severity,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<Reported>, StoreError>;
}
