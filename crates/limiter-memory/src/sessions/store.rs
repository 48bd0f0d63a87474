//! [`MemorySessionStore`]: sessions and what goes with them in this process.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use async_trait::async_trait;
use limiter_core::{Clock, Key, StoreError, Timestamp};
use limiter_sessions::{
    Anomaly, AnomalyFeed, BY_FINGERPRINT_MAX, Fingerprint, FingerprintClusters, IpSignal,
    IpSignals, Label, Locator, Nonce, NonceStore, NonceUse, Observed, Reported, Retention, Session,
    SessionId, SessionStore, Severity, TagKey, Visit, VisitorIp,
};

use super::MemorySessionStoreBuilder;
use super::address::Address;
use super::clusters::Clusters;
use super::expiring::{Expiring, GRACE};
use super::feed::Feed;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::{Mutex, lock};

/// Keeps sessions, nonces, IP signals, anomalies and clusters in this process.
///
/// For a single node and for tests: other processes know nothing of it. Everything is capped, and what has expired is freed
/// as other things are written.
///
/// # Examples
/// ```
/// use limiter_memory::MemorySessionStore;
/// use limiter_sessions::{Retention, SessionStore, Visit};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let store = MemorySessionStore::new();
/// let visit = Visit::new("ab".repeat(32).parse()?, "203.0.113.9".parse()?);
/// let session = store.observe(&visit, Retention::DAY).await?.session;
/// assert!(store.end(&session.id).await?);
/// assert_eq!(store.touch(&session.id, Retention::DAY).await?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MemorySessionStore {
    pub(super) sessions: Mutex<Expiring<Locator, Session>>,
    pub(super) addresses: Mutex<Expiring<VisitorIp, Address>>,
    pub(super) nonces: Mutex<Expiring<[u8; 16], ()>>,
    clusters: Mutex<Clusters>,
    feeds: [Mutex<Feed>; Severity::ALL.len()],
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    tags: TagKey,
    pub(super) clock: Arc<dyn Clock>,
}

impl MemorySessionStore {
    /// Makes a store for 100,000 sessions, on the system's clock.
    #[must_use]
    pub fn new() -> Self {
        MemorySessionStoreBuilder::new().build_checked()
    }

    /// Starts a store with other settings.
    pub const fn builder() -> MemorySessionStoreBuilder {
        MemorySessionStoreBuilder::new()
    }

    pub(super) fn with(max_keys: usize, clock: Arc<dyn Clock>, tags: Option<TagKey>) -> Self {
        Self {
            sessions: Mutex::new(Expiring::new(max_keys)),
            addresses: Mutex::new(Expiring::new(max_keys)),
            nonces: Mutex::new(Expiring::new(max_keys)),
            clusters: Mutex::new(Clusters::new(max_keys)),
            feeds: Default::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            tags: tags.unwrap_or_else(random_tags),
            clock,
        }
    }

    /// Frees everything that has expired, now and not little by little.
    pub fn sweep(&self) {
        let now = self.clock.now();
        lock(&self.sessions).sweep(now);
        lock(&self.addresses).sweep(now);
        lock(&self.nonces).sweep(now);
        lock(&self.clusters).sweep(now);
        for feed in &self.feeds {
            lock(feed).sweep(now.saturating_sub(GRACE));
        }
    }

    /// Returns how many entries are kept, those that have expired and were not yet freed included.
    #[must_use]
    pub fn kept(&self) -> usize {
        let feeds = self.feeds.iter().map(|feed| lock(feed).len());
        lock(&self.sessions).len()
            + lock(&self.addresses).len()
            + lock(&self.nonces).len()
            + lock(&self.clusters).len()
            + feeds.sum::<usize>()
    }

    fn feed(&self, severity: Severity) -> &Mutex<Feed> {
        let [low, medium, high, critical] = &self.feeds;
        match severity {
            Severity::Low => low,
            Severity::Medium => medium,
            Severity::High => high,
            Severity::Critical => critical,
        }
    }

    fn observe_session(
        &self,
        place: &Locator,
        visit: &Visit,
        retention: Retention,
    ) -> Result<(Session, bool), StoreError> {
        let mut sessions = lock(&self.sessions);
        let now = self.clock.now();
        // Another visitor's session in this place is as good as none: theirs begins anew, nothing is mixed up.
        let known = sessions.get(place, now).filter(|known| known.is_of(visit));
        let is_new = known.is_none();
        let session = match known.cloned() {
            None => {
                let id = self.tags.session_id(place, fastrand::u64(..));
                Session::begin(id, visit, now, retention)
            }
            Some(mut known) => {
                known.count(now, retention);
                known.learn(visit);
                known
            }
        };
        sessions.put(*place, session.clone(), session.expires_at, now)?;
        Ok((session, is_new))
    }

    /// Counts a request in the signals of its address; says whether there was room for them.
    fn observe_address(&self, tag: [u8; 16], visit: &Visit, is_new: bool) -> bool {
        let fingerprint = tag.first_chunk().map_or(0, |tag| u64::from_be_bytes(*tag));
        let mut addresses = lock(&self.addresses);
        let now = self.clock.now();
        let known = addresses.take(&visit.ip, now);
        let mut address = known.unwrap_or_else(|| Address::new(now));
        address.count(is_new, visit.bot_probability, fingerprint, now);
        let end = address.ends_at();
        addresses.put(visit.ip, address, end, now).is_ok()
    }

    fn count_read(&self, found: bool) {
        let counter = if found { &self.hits } else { &self.misses };
        counter.fetch_add(1, Relaxed);
    }
}

/// Draws a secret from the operating system, by way of std's own defence against hash flooding.
fn random_tags() -> TagKey {
    let mut secret = [0; 64];
    for (nth, place) in secret.chunks_exact_mut(8).enumerate() {
        place.copy_from_slice(&RandomState::new().hash_one(nth).to_be_bytes());
    }
    TagKey::from(secret)
}

#[async_trait]
impl SessionStore for MemorySessionStore {
    async fn observe(&self, visit: &Visit, retention: Retention) -> Result<Observed, StoreError> {
        let tags = self.tags.visit(visit);
        let (session, is_new) = self.observe_session(&tags.locator, visit, retention)?;
        let in_signals = self.observe_address(tags.fingerprint, visit, is_new);
        Ok(Observed::new(session, is_new, in_signals))
    }

    async fn touch(
        &self,
        id: &SessionId,
        retention: Retention,
    ) -> Result<Option<Session>, StoreError> {
        let place = TagKey::locator(id);
        let mut sessions = lock(&self.sessions);
        let now = self.clock.now();
        let known = sessions.get(&place, now).filter(|known| known.id == *id);
        let Some(mut session) = known.cloned() else {
            return Ok(None);
        };
        session.count(now, retention);
        sessions.put(place, session.clone(), session.expires_at, now)?;
        Ok(Some(session))
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        let sessions = lock(&self.sessions);
        let known = sessions.get(&TagKey::locator(id), self.clock.now());
        let known = known.filter(|known| known.id == *id).cloned();
        drop(sessions);
        self.count_read(known.is_some());
        Ok(known)
    }

    async fn end(&self, id: &SessionId) -> Result<bool, StoreError> {
        let place = TagKey::locator(id);
        let mut sessions = lock(&self.sessions);
        let known = sessions.get(&place, self.clock.now());
        let lived = known.is_some_and(|known| known.id == *id);
        if lived {
            sessions.remove(&place);
        }
        Ok(lived)
    }

    async fn by_fingerprint(
        &self,
        fingerprint: &Fingerprint,
    ) -> Result<Vec<SessionId>, StoreError> {
        let tag = self.tags.fingerprint(fingerprint);
        let group = tag.first_chunk().copied().unwrap_or_default();
        let at = |member| Locator { group, member };
        let sessions = lock(&self.sessions);
        let group = sessions.range(at([0; 6])..=at([u8::MAX; 6]), self.clock.now());
        let mut found: Vec<(Timestamp, SessionId)> = group
            .filter(|(_, _, session)| session.fingerprint == *fingerprint)
            .map(|(end, _, session)| (end, session.id))
            .collect();
        drop(sessions);
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.truncate(BY_FINGERPRINT_MAX);
        Ok(found.into_iter().map(|(_, id)| id).collect())
    }
}

#[async_trait]
impl NonceStore for MemorySessionStore {
    async fn consume(
        &self,
        scope: &Key,
        nonce: &Nonce,
        window: Retention,
    ) -> Result<NonceUse, StoreError> {
        let tag = self.tags.nonce(scope, nonce);
        let mut nonces = lock(&self.nonces);
        let now = self.clock.now();
        if nonces.get(&tag, now).is_some() {
            return Ok(NonceUse::Replay);
        }
        nonces.put(tag, (), now.saturating_add(window.get()), now)?;
        Ok(NonceUse::First)
    }
}

#[async_trait]
impl IpSignals for MemorySessionStore {
    async fn signal(&self, ip: VisitorIp) -> Result<Option<IpSignal>, StoreError> {
        let addresses = lock(&self.addresses);
        let known = addresses.get(&ip, self.clock.now()).map(Address::signal);
        drop(addresses);
        self.count_read(known.is_some());
        Ok(known)
    }
}

#[async_trait]
impl AnomalyFeed for MemorySessionStore {
    async fn push(&self, anomaly: &Anomaly) -> Result<(), StoreError> {
        let mut feed = lock(self.feed(anomaly.severity()));
        feed.push(anomaly, self.clock.now());
        Ok(())
    }

    async fn recent(
        &self,
        severity: Severity,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<Reported>, StoreError> {
        let feed = lock(self.feed(severity));
        Ok(feed.recent(since, limit, self.clock.now()))
    }
}

#[async_trait]
impl FingerprintClusters for MemorySessionStore {
    async fn join(
        &self,
        cluster: &Label,
        fingerprint: &Fingerprint,
        retention: Retention,
    ) -> Result<(), StoreError> {
        let mut clusters = lock(&self.clusters);
        let now = self.clock.now();
        clusters.join(
            cluster,
            *fingerprint,
            now.saturating_add(retention.get()),
            now,
        )
    }

    async fn members(&self, cluster: &Label) -> Result<Vec<Fingerprint>, StoreError> {
        Ok(lock(&self.clusters).members(cluster, self.clock.now()))
    }
}

impl Default for MemorySessionStore {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for MemorySessionStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemorySessionStore").finish_non_exhaustive()
    }
}
