//! A store of sessions with one deliberate fault.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use limiter_core::{Clock, Key, StoreError, Timestamp};
use limiter_sessions::{
    Anomaly, AnomalyFeed, BY_FINGERPRINT_MAX, BotProbability, CLUSTER_MAX, FEED_MAX, Fingerprint,
    FingerprintClusters, IpSignal, IpSignals, Label, Nonce, NonceStore, NonceUse, Observed,
    Reported, Retention, Session, SessionId, SessionPorts, SessionStore, Severity, StoreReport,
    StoreStats, Visit, VisitorIp,
};
use limiter_testkit::ManualClock;
use limiter_testkit::sessions::{SessionModelStore, SessionStoreUnderTest};

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    IgnoresAddresses,
    ChecksThenBegins,
    ChecksThenUses,
    SharesScopes,
    FollowsTheClockBack,
    KeepsTheDead,
    Resurrects,
    FindsTheEnded,
    ForgetsWhatWasTold,
    DropsWhatIsAlike,
    OldestFirst,
    OneFeedForAll,
    KeepsMembersTooShort,
    NeverForgets,
    ShowsAddresses,
    IgnoresRetention,
    TouchesNothing,
    ListsTooFew,
    PushesOutTheWrongSession,
    PushesOutNoMember,
    TakesNoMemberWhenFull,
    FeedsTooFew,
    TakesNoAnomalyWhenFull,
    KeepsAnomaliesForEver,
    LooksAtEverything,
    CountsTheDead,
    ForgetsToCountNonces,
    OverwritesProbabilities,
    SharesSignals,
    SignalsForEver,
    EstimatesBadly,
}

/// The model behind the ports, with one fault.
#[derive(Clone)]
pub(super) struct FaultyStore {
    model: SessionModelStore,
    fault: Fault,
    ended: Arc<Mutex<BTreeMap<SessionId, Session>>>,
    used: Arc<Mutex<Vec<Vec<u8>>>>,
    joined: Arc<Mutex<BTreeSet<Fingerprint>>>,
    pushed: Arc<Mutex<Vec<Reported>>>,
    told: Arc<Mutex<Option<BotProbability>>>,
    signals: Arc<Mutex<BTreeMap<VisitorIp, IpSignal>>>,
}

impl FaultyStore {
    pub(super) fn with(fault: Fault) -> Self {
        Self {
            model: SessionModelStore::new(),
            fault,
            ended: Arc::default(),
            used: Arc::default(),
            joined: Arc::default(),
            pushed: Arc::default(),
            told: Arc::default(),
            signals: Arc::default(),
        }
    }

    fn now(&self) -> Timestamp {
        self.model.clock().now()
    }

    /// Returns whether the feed was full already.
    fn note_push(&self, anomaly: &Anomaly) -> bool {
        let (at, anomaly) = (self.now(), anomaly.clone());
        let mut pushed = self.pushed.lock().unwrap();
        pushed.push(Reported { at, anomaly });
        pushed.len() > FEED_MAX
    }

    /// Returns whether the cluster was full already.
    fn note_join(&self, fingerprint: &Fingerprint) -> bool {
        let mut joined = self.joined.lock().unwrap();
        let is_new = joined.insert(*fingerprint);
        is_new && joined.len() > CLUSTER_MAX
    }
}

#[async_trait]
impl SessionStore for FaultyStore {
    async fn observe(&self, visit: &Visit, retention: Retention) -> Result<Observed, StoreError> {
        let mut visit = *visit;
        if self.fault == Fault::IgnoresAddresses {
            visit.ip = "10.0.0.1".parse().unwrap();
        }
        if self.fault == Fault::ChecksThenBegins {
            let known = self.model.by_fingerprint(&visit.fingerprint).await?;
            tokio::task::yield_now().await;
            if known.is_empty() {
                // What a second caller does who found nothing either: begins anew, over the first.
                for id in self.model.by_fingerprint(&visit.fingerprint).await? {
                    self.model.end(&id).await?;
                }
            }
        }
        let retention = match self.fault {
            Fault::IgnoresRetention => Retention::HOUR,
            _ => retention,
        };
        let mut seen = self.model.observe(&visit, retention).await?;
        if let Some(signal) = self.model.signal(visit.ip).await? {
            self.signals.lock().unwrap().insert(visit.ip, signal);
        }
        if visit.bot_probability.is_some() {
            *self.told.lock().unwrap() = visit.bot_probability;
        }
        match self.fault {
            Fault::FollowsTheClockBack => seen.session.last_seen = self.now(),
            Fault::ForgetsWhatWasTold => seen.session.bot_probability = visit.bot_probability,
            Fault::FindsTheEnded => {
                let ended = self.ended.lock().unwrap();
                let of_visit = |session: &&Session| {
                    (session.fingerprint, session.ip) == (visit.fingerprint, visit.ip)
                };
                if let Some(session) = ended.values().find(of_visit) {
                    seen.session = session.clone();
                }
            }
            _ => {}
        }
        Ok(seen)
    }

    async fn touch(
        &self,
        id: &SessionId,
        retention: Retention,
    ) -> Result<Option<Session>, StoreError> {
        if self.fault == Fault::TouchesNothing {
            return self.model.get(id).await;
        }
        let touched = self.model.touch(id, retention).await?;
        let ended = self.ended.lock().unwrap().get(id).cloned();
        Ok(touched.or(ended.filter(|_| self.fault == Fault::Resurrects)))
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        let found = self.model.get(id).await?;
        let mut known = self.ended.lock().unwrap();
        if self.fault == Fault::KeepsTheDead {
            known.extend(found.clone().map(|session| (*id, session)));
            return Ok(known.get(id).cloned());
        }
        Ok(found)
    }

    async fn end(&self, id: &SessionId) -> Result<bool, StoreError> {
        let session = self.model.get(id).await?;
        self.ended
            .lock()
            .unwrap()
            .extend(session.map(|session| (*id, session)));
        self.model.end(id).await
    }

    async fn by_fingerprint(
        &self,
        fingerprint: &Fingerprint,
    ) -> Result<Vec<SessionId>, StoreError> {
        let mut ids = self.model.by_fingerprint(fingerprint).await?;
        if self.fault == Fault::OldestFirst {
            ids.reverse();
        }
        if ids.len() == BY_FINGERPRINT_MAX {
            match self.fault {
                Fault::ListsTooFew => ids.truncate(BY_FINGERPRINT_MAX - 1),
                Fault::PushesOutTheWrongSession => ids[500] = SessionId::from_bytes([0; 16]),
                _ => {}
            }
        }
        Ok(ids)
    }
}

#[async_trait]
impl NonceStore for FaultyStore {
    async fn consume(
        &self,
        scope: &Key,
        nonce: &Nonce,
        window: Retention,
    ) -> Result<NonceUse, StoreError> {
        if self.fault == Fault::SharesScopes {
            let all = Key::from([0; 16]);
            return self.model.consume(&all, nonce, window).await;
        }
        if self.fault == Fault::ChecksThenUses {
            let nonce = nonce.as_str().as_bytes().to_vec();
            let is_used = self.used.lock().unwrap().contains(&nonce);
            tokio::task::yield_now().await;
            self.used.lock().unwrap().push(nonce);
            return Ok(if is_used {
                NonceUse::Replay
            } else {
                NonceUse::First
            });
        }
        self.model.consume(scope, nonce, window).await
    }
}

#[async_trait]
impl IpSignals for FaultyStore {
    async fn signal(&self, ip: VisitorIp) -> Result<Option<IpSignal>, StoreError> {
        let mut signal = self.model.signal(ip).await?;
        let known = self.signals.lock().unwrap();
        match (self.fault, &mut signal) {
            (Fault::SharesSignals, _) => signal = known.values().next().copied(),
            (Fault::SignalsForEver, _) => signal = known.get(&ip).copied(),
            (Fault::OverwritesProbabilities, Some(signal)) => {
                signal.mean_bot_probability = *self.told.lock().unwrap();
            }
            (Fault::EstimatesBadly, Some(signal)) => {
                signal.unique_fingerprints = signal.unique_fingerprints.min(2048);
            }
            _ => {}
        }
        Ok(signal)
    }
}

#[async_trait]
impl AnomalyFeed for FaultyStore {
    async fn push(&self, anomaly: &Anomaly) -> Result<(), StoreError> {
        let severity = anomaly.severity();
        let newest = self.model.recent(severity, Timestamp::EPOCH, 1).await?;
        let is_alike = newest.iter().any(|newest| newest.anomaly == *anomaly);
        if self.fault == Fault::DropsWhatIsAlike && is_alike {
            return Ok(());
        }
        let is_full = self.note_push(anomaly);
        if self.fault == Fault::TakesNoAnomalyWhenFull && is_full {
            return Ok(());
        }
        self.model.push(anomaly).await
    }

    async fn recent(
        &self,
        severity: Severity,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<Reported>, StoreError> {
        let severity = match self.fault {
            Fault::OneFeedForAll => Severity::Low,
            _ => severity,
        };
        let mut recent = self.model.recent(severity, since, limit).await?;
        if self.fault == Fault::OldestFirst {
            recent.reverse();
        }
        match self.fault {
            Fault::FeedsTooFew => recent.truncate(FEED_MAX - 1),
            Fault::KeepsAnomaliesForEver => {
                let pushed = self.pushed.lock().unwrap();
                recent = pushed.iter().rev().take(limit).cloned().collect();
            }
            _ => {}
        }
        Ok(recent)
    }
}

#[async_trait]
impl FingerprintClusters for FaultyStore {
    async fn join(
        &self,
        cluster: &Label,
        fingerprint: &Fingerprint,
        retention: Retention,
    ) -> Result<(), StoreError> {
        let retention = match self.fault {
            Fault::KeepsMembersTooShort => Retention::FIVE_MINUTES,
            _ => retention,
        };
        let is_full = self.note_join(fingerprint);
        if self.fault == Fault::TakesNoMemberWhenFull && is_full {
            return Ok(());
        }
        self.model.join(cluster, fingerprint, retention).await
    }

    async fn members(&self, cluster: &Label) -> Result<Vec<Fingerprint>, StoreError> {
        if self.fault == Fault::PushesOutNoMember {
            let joined = self.joined.lock().unwrap();
            return Ok(joined.iter().copied().collect());
        }
        self.model.members(cluster).await
    }
}

#[async_trait]
impl StoreStats for FaultyStore {
    async fn stats(&self, keys_max: u32) -> Result<StoreReport, StoreError> {
        let keys_max = match self.fault {
            Fault::LooksAtEverything => u32::MAX,
            _ => keys_max,
        };
        let mut stats = self.model.stats(keys_max).await?;
        match self.fault {
            Fault::CountsTheDead => stats.sessions += self.ended.lock().unwrap().len() as u64,
            Fault::ForgetsToCountNonces => stats.nonces = 0,
            _ => {}
        }
        Ok(stats)
    }
}

impl SessionStoreUnderTest for FaultyStore {
    fn store(&self) -> Arc<dyn SessionPorts> {
        Arc::new(self.clone())
    }

    fn clock(&self) -> ManualClock {
        self.model.clock()
    }

    fn racing_calls(&self) -> u32 {
        6_400
    }

    async fn kept(&self) -> usize {
        self.model.kept().await
    }

    async fn forget_idle(&self) {
        if self.fault != Fault::NeverForgets {
            self.model.forget_idle().await;
        }
    }

    async fn immortal_keys(&self) -> usize {
        usize::from(self.fault == Fault::NeverForgets)
    }

    async fn key_names(&self) -> Vec<Vec<u8>> {
        match self.fault {
            Fault::ShowsAddresses => vec![b"ip:10.0.0.2".to_vec()],
            _ => Vec::new(),
        }
    }
}
