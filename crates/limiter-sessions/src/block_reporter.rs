//! [`BlockReporter`]: the bridge from the abuse limiter to the feed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use limiter_core::{
    AbuseDecision, AbuseLimiter, AbusePolicy, Block, BlockEvent, Enforcement, FailureLog, Key,
    StoreError,
};

use crate::{Anomaly, AnomalyFeed, Label, Severity};

/// An abuse limiter that reports every block that starts to an anomaly feed; otherwise it does what the one inside does.
///
/// The anomaly is of the kind [`KIND`](Self::KIND), and its note names policy and tier: `login/long`. A policy in shadow
/// reports with [`Severity::Low`]. A feed that fails changes no decision; it is logged, as [`FailureLog`] says, and
/// [`missed`](Self::missed) counts what it lost.
///
/// # Cancel safety
/// As the port says. A dropped `record` may have started a block that is not reported, and that
/// [`missed`](Self::missed) does not count.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use limiter_core::AbuseLimiter;
/// use limiter_sessions::{AnomalyFeed, BlockReporter, Severity};
///
/// fn reporting(limiter: Arc<dyn AbuseLimiter>, feed: Arc<dyn AnomalyFeed>) -> Arc<dyn AbuseLimiter> {
///     Arc::new(BlockReporter::new(limiter, feed).with_severity(Severity::Critical))
/// }
/// ```
pub struct BlockReporter {
    inner: Arc<dyn AbuseLimiter>,
    feed: Arc<dyn AnomalyFeed>,
    severity: Severity,
    missed: AtomicU64,
    log: FailureLog,
}

impl BlockReporter {
    /// The kind of the anomalies that it reports.
    pub const KIND: &'static str = "abuse_block";

    /// Reports the blocks of `inner` to `feed`, with [`Severity::High`].
    #[must_use]
    pub fn new(inner: Arc<dyn AbuseLimiter>, feed: Arc<dyn AnomalyFeed>) -> Self {
        Self {
            inner,
            feed,
            severity: Severity::High,
            missed: AtomicU64::new(0),
            log: FailureLog::new(),
        }
    }

    /// Sets how bad a block is.
    #[must_use]
    pub const fn with_severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Returns how many blocks the feed did not confirm.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    async fn report(&self, event: &BlockEvent) {
        let severity = match event.enforcement {
            Enforcement::Enforced => self.severity,
            Enforcement::Shadow => Severity::Low,
        };
        let note = format!("{}/{}", event.policy, event.scope);
        let reported = match Label::new(Self::KIND) {
            Ok(kind) => {
                let anomaly = Anomaly::new(severity, kind).with_note(&note);
                let pushed = self.feed.push(&anomaly).await;
                match &pushed {
                    Ok(()) => self.log.answered(),
                    Err(error) => self
                        .log
                        .failed(error, "blocks are not reported to the feed"),
                }
                pushed.is_ok()
            }
            Err(_) => false,
        };
        if !reported {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[async_trait]
impl AbuseLimiter for BlockReporter {
    async fn record(&self, key: &Key, policy: &AbusePolicy) -> AbuseDecision {
        let decision = self.inner.record(key, policy).await;
        if let Some(event) = decision.event() {
            self.report(&event).await;
        }
        decision
    }

    async fn status(&self, key: &Key, policy: &AbusePolicy) -> AbuseDecision {
        self.inner.status(key, policy).await
    }

    async fn forgive(&self, key: &Key, policy: &AbusePolicy) -> Result<(), StoreError> {
        self.inner.forgive(key, policy).await
    }

    async fn unblock(&self, key: &Key, policy: &AbusePolicy) -> Result<Option<Block>, StoreError> {
        self.inner.unblock(key, policy).await
    }
}

impl std::fmt::Debug for BlockReporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockReporter")
            .field("severity", &self.severity)
            .field("missed", &self.missed)
            .finish_non_exhaustive()
    }
}
