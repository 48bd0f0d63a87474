//! [`SessionModelStore`]: the model behind the ports.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use limiter_core::{Clock, Key, StoreError, Timestamp};
use limiter_sessions::{
    Anomaly, AnomalyFeed, BY_FINGERPRINT_MAX, CLUSTER_MAX, Fingerprint, FingerprintClusters,
    IpSignal, IpSignals, Label, Nonce, NonceStore, NonceUse, Observed, Reported, Retention,
    Session, SessionId, SessionPorts, SessionStore, Severity, StoreReport, StoreStats, Visit,
    VisitorIp,
};

use super::{SessionModel, SessionStoreUnderTest};
use crate::ManualClock;

/// A store of sessions that is right and slow: the [`SessionModel`] behind a lock.
///
/// Takes the place of a real store in tests of what stands above one. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct SessionModelStore {
    model: Arc<Mutex<SessionModel>>,
    reads: Arc<Mutex<(u64, u64)>>,
    clock: ManualClock,
}

impl SessionModelStore {
    /// Makes an empty store with a clock of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn model(&self) -> MutexGuard<'_, SessionModel> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

#[async_trait]
impl SessionStore for SessionModelStore {
    async fn observe(&self, visit: &Visit, retention: Retention) -> Result<Observed, StoreError> {
        let (session, is_new) = self.model().observe(visit, retention, self.now());
        Ok(Observed::new(session, is_new, true))
    }

    async fn touch(
        &self,
        id: &SessionId,
        retention: Retention,
    ) -> Result<Option<Session>, StoreError> {
        Ok(self.model().touch(id, retention, self.now()))
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        let found = self.model().get(id, self.now());
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.0 += u64::from(found.is_some());
        reads.1 += u64::from(found.is_none());
        Ok(found)
    }

    async fn end(&self, id: &SessionId) -> Result<bool, StoreError> {
        Ok(self.model().end(id, self.now()))
    }

    async fn by_fingerprint(
        &self,
        fingerprint: &Fingerprint,
    ) -> Result<Vec<SessionId>, StoreError> {
        let mut found = self.model().by_fingerprint(fingerprint, self.now());
        found.sort_unstable_by(|one, other| other.cmp(one));
        let newest = found.into_iter().take(BY_FINGERPRINT_MAX);
        Ok(newest.map(|(_, id)| id).collect())
    }
}

#[async_trait]
impl NonceStore for SessionModelStore {
    async fn consume(
        &self,
        scope: &Key,
        nonce: &Nonce,
        window: Retention,
    ) -> Result<NonceUse, StoreError> {
        Ok(self.model().consume(scope, nonce, window, self.now()))
    }
}

#[async_trait]
impl IpSignals for SessionModelStore {
    async fn signal(&self, ip: VisitorIp) -> Result<Option<IpSignal>, StoreError> {
        Ok(self.model().signal(ip, self.now()))
    }
}

#[async_trait]
impl AnomalyFeed for SessionModelStore {
    async fn push(&self, anomaly: &Anomaly) -> Result<(), StoreError> {
        self.model().push(anomaly, self.now());
        Ok(())
    }

    async fn recent(
        &self,
        severity: Severity,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<Reported>, StoreError> {
        Ok(self.model().recent(severity, since, limit, self.now()))
    }
}

#[async_trait]
impl FingerprintClusters for SessionModelStore {
    async fn join(
        &self,
        cluster: &Label,
        fingerprint: &Fingerprint,
        retention: Retention,
    ) -> Result<(), StoreError> {
        self.model()
            .join(cluster, fingerprint, retention, self.now());
        Ok(())
    }

    async fn members(&self, cluster: &Label) -> Result<Vec<Fingerprint>, StoreError> {
        let mut members = self.model().members(cluster, self.now());
        members.truncate(CLUSTER_MAX);
        Ok(members)
    }
}

#[async_trait]
impl StoreStats for SessionModelStore {
    async fn stats(&self, keys_max: u32) -> Result<StoreReport, StoreError> {
        let [sessions, fingerprints, addresses, nonces] = self.model().counts(self.now());
        let reads = *self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        let mut report = StoreReport::default();
        (report.sessions, report.fingerprints) = (sessions.min(keys_max.into()), fingerprints);
        (report.addresses, report.nonces) = (addresses, nonces);
        (report.hits, report.misses) = reads;
        report.memory_bytes = sessions;
        report.is_complete = sessions <= keys_max.into();
        Ok(report)
    }
}

impl SessionStoreUnderTest for SessionModelStore {
    fn store(&self) -> Arc<dyn SessionPorts> {
        Arc::new(self.clone())
    }

    fn clock(&self) -> ManualClock {
        self.clock.clone()
    }

    fn racing_calls(&self) -> u32 {
        20_000
    }

    async fn kept(&self) -> usize {
        self.model().kept()
    }

    async fn forget_idle(&self) {
        // With a grace, for clocks that step back.
        let ended_by = self.now().saturating_sub(Duration::from_secs(1));
        self.model().forget_outlived(ended_by);
    }

    async fn immortal_keys(&self) -> usize {
        0
    }

    async fn key_names(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }
}
