//! [`FingerprintClusters`]: the outbound port to fingerprints that belong together.

use async_trait::async_trait;
use limiter_core::StoreError;

use crate::{Fingerprint, Label, Retention};

/// How many fingerprints a cluster has at most: those that stay longest.
pub const CLUSTER_MAX: usize = 10_000;

/// Keeps fingerprints that belong together, such as those of one bot network.
///
/// # Contract
/// - A fingerprint is in a cluster once, until its retention has passed since it last joined.
/// - A cluster has at most [`CLUSTER_MAX`] fingerprints. One too many pushes out that which would leave first.
#[cfg_attr(any(test, feature = "mock"), mockall::automock)]
#[async_trait]
pub trait FingerprintClusters: Send + Sync {
    /// Puts a fingerprint into a cluster, or prolongs its stay.
    ///
    /// # Errors
    /// [`StoreError`] if the store did not confirm it.
    ///
    /// # Cancel safety
    /// A dropped call may still take effect.
    async fn join(
        &self,
        cluster: &Label,
        fingerprint: &Fingerprint,
        retention: Retention,
    ) -> Result<(), StoreError>;

    /// Returns the fingerprints of a cluster, that which stays longest first.
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no answer.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    async fn members(&self, cluster: &Label) -> Result<Vec<Fingerprint>, StoreError>;
}
