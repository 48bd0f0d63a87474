//! The ports: what the store of a second domain promises, each in its file.

mod anomaly_feed;
mod fingerprint_clusters;
mod ip_signals;
mod nonce_store;
mod session_store;
mod store_stats;

pub use anomaly_feed::{AnomalyFeed, FEED_MAX, FEED_RETENTION};
pub use fingerprint_clusters::{CLUSTER_MAX, FingerprintClusters};
pub use ip_signals::IpSignals;
pub use nonce_store::{NonceStore, NonceUse};
pub use session_store::{BY_FINGERPRINT_MAX, SessionStore};
pub use store_stats::StoreStats;

/// A store that keeps every promise of this crate: all ports at once.
pub trait SessionPorts:
    SessionStore + NonceStore + IpSignals + AnomalyFeed + FingerprintClusters + StoreStats
{
}

impl<S> SessionPorts for S where
    S: SessionStore + NonceStore + IpSignals + AnomalyFeed + FingerprintClusters + StoreStats
{
}

/// Mocks of the ports, made with mockall.
#[cfg(any(test, feature = "mock"))]
pub mod mock {
    pub use super::anomaly_feed::MockAnomalyFeed;
    pub use super::fingerprint_clusters::MockFingerprintClusters;
    pub use super::ip_signals::MockIpSignals;
    pub use super::nonce_store::MockNonceStore;
    pub use super::session_store::MockSessionStore;
    pub use super::store_stats::MockStoreStats;
}
