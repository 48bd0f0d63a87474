//! [`timed_sessions`]: a store of sessions each call of which has to end by its deadline.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use limiter_core::{Key, StoreError, Timestamp};
use limiter_sessions::{
    Anomaly, AnomalyFeed, Fingerprint, FingerprintClusters, IpSignal, IpSignals, Label, Nonce,
    NonceStore, NonceUse, Observed, Reported, Retention, Session, SessionId, SessionStore,
    Severity, StoreReport, StoreStats, Visit, VisitorIp,
};

use crate::{Sessions, ends_by};

/// Returns the store with a watch on each of its calls, whatever the test is about.
#[must_use]
pub fn timed_sessions(store: Sessions, deadline: Duration) -> Sessions {
    Arc::new(Timed { store, deadline })
}

struct Timed {
    store: Sessions,
    deadline: Duration,
}

#[async_trait]
impl SessionStore for Timed {
    async fn observe(&self, visit: &Visit, retention: Retention) -> Result<Observed, StoreError> {
        ends_by(self.deadline, self.store.observe(visit, retention)).await
    }

    async fn touch(
        &self,
        id: &SessionId,
        retention: Retention,
    ) -> Result<Option<Session>, StoreError> {
        ends_by(self.deadline, self.store.touch(id, retention)).await
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        ends_by(self.deadline, self.store.get(id)).await
    }

    async fn end(&self, id: &SessionId) -> Result<bool, StoreError> {
        ends_by(self.deadline, self.store.end(id)).await
    }

    async fn by_fingerprint(
        &self,
        fingerprint: &Fingerprint,
    ) -> Result<Vec<SessionId>, StoreError> {
        ends_by(self.deadline, self.store.by_fingerprint(fingerprint)).await
    }
}

#[async_trait]
impl NonceStore for Timed {
    async fn consume(
        &self,
        scope: &Key,
        nonce: &Nonce,
        window: Retention,
    ) -> Result<NonceUse, StoreError> {
        ends_by(self.deadline, self.store.consume(scope, nonce, window)).await
    }
}

#[async_trait]
impl IpSignals for Timed {
    async fn signal(&self, ip: VisitorIp) -> Result<Option<IpSignal>, StoreError> {
        ends_by(self.deadline, self.store.signal(ip)).await
    }
}

#[async_trait]
impl AnomalyFeed for Timed {
    async fn push(&self, anomaly: &Anomaly) -> Result<(), StoreError> {
        ends_by(self.deadline, self.store.push(anomaly)).await
    }

    async fn recent(
        &self,
        severity: Severity,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<Reported>, StoreError> {
        ends_by(self.deadline, self.store.recent(severity, since, limit)).await
    }
}

#[async_trait]
impl FingerprintClusters for Timed {
    async fn join(
        &self,
        cluster: &Label,
        fingerprint: &Fingerprint,
        retention: Retention,
    ) -> Result<(), StoreError> {
        let joining = self.store.join(cluster, fingerprint, retention);
        ends_by(self.deadline, joining).await
    }

    async fn members(&self, cluster: &Label) -> Result<Vec<Fingerprint>, StoreError> {
        ends_by(self.deadline, self.store.members(cluster)).await
    }
}

#[async_trait]
impl StoreStats for Timed {
    async fn stats(&self, keys_max: u32) -> Result<StoreReport, StoreError> {
        ends_by(self.deadline, self.store.stats(keys_max)).await
    }
}
