#![doc = include_str!("../README.md")]
#![warn(clippy::pedantic)]

mod anomaly;
mod block_reporter;
mod ip_limit;
mod ip_signal;
mod ports;
mod session;
mod session_service;
pub mod sizing;
mod store_report;
mod tag_key;
mod values;
mod visit;

pub use anomaly::{Anomaly, Reported};
pub use block_reporter::BlockReporter;
pub use ip_limit::IpLimit;
pub use ip_signal::IpSignal;
#[cfg(any(test, feature = "mock"))]
pub use ports::mock;
pub use ports::{
    AnomalyFeed, BY_FINGERPRINT_MAX, CLUSTER_MAX, FEED_MAX, FEED_RETENTION, FingerprintClusters,
    IpSignals, NonceStore, NonceUse, SessionPorts, SessionStore, StoreStats,
};
pub use session::{Observed, Session};
pub use session_service::{NonceVerdict, SessionService};
pub use store_report::StoreReport;
pub use tag_key::{Locator, TagKey, VisitTags, WeakSecret};
pub use values::{
    BotProbability, Country, Fingerprint, InvalidCountry, InvalidFingerprint, InvalidIp,
    InvalidLabel, InvalidNonce, InvalidProbability, InvalidRetention, InvalidSessionId,
    InvalidSeverity, Label, Nonce, Retention, SessionId, Severity, VisitorIp,
};
pub use visit::Visit;
