//! [`SessionModel`]: sessions and what goes with them, in plain maps.

use std::collections::{BTreeMap, BTreeSet};

use limiter_core::{Key, Timestamp};
use limiter_sessions::{
    Anomaly, BotProbability, FEED_MAX, FEED_RETENTION, Fingerprint, IpSignal, Label, Nonce,
    NonceUse, Reported, Retention, Session, SessionId, Severity, Visit, VisitorIp,
};

/// What a store of sessions has to answer, in plain maps that keep everything: right, slow and unbounded.
///
/// It numbers the ids of sessions; a store makes its own.
#[derive(Clone, Debug, Default)]
pub struct SessionModel {
    sessions: BTreeMap<(Fingerprint, VisitorIp), Session>,
    addresses: BTreeMap<VisitorIp, Address>,
    nonces: BTreeMap<(Vec<u8>, String), Timestamp>,
    feeds: BTreeMap<Severity, Vec<Reported>>,
    clusters: BTreeMap<(Label, Fingerprint), Timestamp>,
    next_id: u128,
}

#[derive(Clone, Debug)]
struct Address {
    first_seen: Timestamp,
    last_seen: Timestamp,
    sessions: BTreeSet<SessionId>,
    fingerprints: BTreeSet<Fingerprint>,
    probabilities: Vec<BotProbability>,
}

impl SessionModel {
    /// Finds or begins the session of a visit; says whether it began.
    pub fn observe(&mut self, visit: &Visit, keep: Retention, now: Timestamp) -> (Session, bool) {
        let pair = (visit.fingerprint, visit.ip);
        let known = self
            .sessions
            .get(&pair)
            .filter(|known| now < known.expires_at);
        let is_new = known.is_none();
        let session = match known.cloned() {
            None => {
                self.next_id += 1;
                let id = SessionId::from_bytes(self.next_id.to_be_bytes());
                Session::begin(id, visit, now, keep)
            }
            Some(mut known) => {
                if now > known.last_seen {
                    known.last_seen = now;
                }
                known.expires_at = known.last_seen.saturating_add(keep.get());
                known.request_count += 1;
                if visit.bot_probability.is_some() {
                    known.bot_probability = visit.bot_probability;
                }
                if visit.country.is_some() {
                    known.country = visit.country;
                }
                known
            }
        };
        self.sessions.insert(pair, session.clone());
        self.observe_address(visit, is_new.then_some(session.id), now);
        (session, is_new)
    }

    fn observe_address(&mut self, visit: &Visit, begun: Option<SessionId>, now: Timestamp) {
        if self.signal(visit.ip, now).is_none() {
            self.addresses.remove(&visit.ip);
        }
        let address = self.addresses.entry(visit.ip).or_insert(Address {
            first_seen: now,
            last_seen: now,
            sessions: BTreeSet::new(),
            fingerprints: BTreeSet::new(),
            probabilities: Vec::new(),
        });
        address.last_seen = address.last_seen.max(now);
        address.sessions.extend(begun);
        address.fingerprints.insert(visit.fingerprint);
        address.probabilities.extend(visit.bot_probability);
    }

    /// Counts a request of a session by its id.
    pub fn touch(&mut self, id: &SessionId, keep: Retention, now: Timestamp) -> Option<Session> {
        let is_it = |session: &&mut Session| session.id == *id && now < session.expires_at;
        let session = self.sessions.values_mut().find(is_it)?;
        if now > session.last_seen {
            session.last_seen = now;
        }
        session.expires_at = session.last_seen.saturating_add(keep.get());
        session.request_count += 1;
        Some(session.clone())
    }

    /// Reads a session.
    #[must_use]
    pub fn get(&self, id: &SessionId, now: Timestamp) -> Option<Session> {
        let is_it = |session: &&Session| session.id == *id && now < session.expires_at;
        self.sessions.values().find(is_it).cloned()
    }

    /// Ends a session; says whether it lived.
    pub fn end(&mut self, id: &SessionId, now: Timestamp) -> bool {
        let Some(session) = self.get(id, now) else {
            return false;
        };
        self.sessions.remove(&(session.fingerprint, session.ip));
        true
    }

    /// Returns the live sessions of a fingerprint, in no order, each with its end.
    #[must_use]
    pub fn by_fingerprint(
        &self,
        fingerprint: &Fingerprint,
        now: Timestamp,
    ) -> Vec<(Timestamp, SessionId)> {
        let is_one =
            |session: &&Session| session.fingerprint == *fingerprint && now < session.expires_at;
        let found = self.sessions.values().filter(is_one);
        found
            .map(|session| (session.expires_at, session.id))
            .collect()
    }

    /// Uses up a nonce.
    pub fn consume(
        &mut self,
        scope: &Key,
        nonce: &Nonce,
        window: Retention,
        now: Timestamp,
    ) -> NonceUse {
        let used = (scope.as_bytes().to_vec(), nonce.as_str().to_owned());
        match self.nonces.get(&used) {
            Some(until) if now < *until => NonceUse::Replay,
            _ => {
                self.nonces.insert(used, now.saturating_add(window.get()));
                NonceUse::First
            }
        }
    }

    /// Reads what is known of an address.
    #[must_use]
    pub fn signal(&self, ip: VisitorIp, now: Timestamp) -> Option<IpSignal> {
        let address = self.addresses.get(&ip)?;
        if address.last_seen.saturating_add(IpSignal::RETENTION.get()) <= now {
            return None;
        }
        let told = &address.probabilities;
        let sum = told.iter().map(|told| u64::from(told.ppm())).sum();
        Some(IpSignal::new(
            (address.first_seen, address.last_seen),
            address.sessions.len() as u64,
            address.fingerprints.len() as u64,
            BotProbability::mean(sum, told.len() as u64),
        ))
    }

    /// Takes an anomaly in.
    pub fn push(&mut self, anomaly: &Anomaly, now: Timestamp) {
        let feed = self.feeds.entry(anomaly.severity()).or_default();
        let at = feed.last().map_or(now, |last| last.at.max(now));
        let anomaly = anomaly.clone();
        feed.push(Reported { at, anomaly });
    }

    /// Returns the newest anomalies.
    #[must_use]
    pub fn recent(
        &self,
        severity: Severity,
        since: Timestamp,
        limit: usize,
        now: Timestamp,
    ) -> Vec<Reported> {
        let feed = self.feeds.get(&severity).map_or(&[][..], Vec::as_slice);
        let newest = feed.iter().rev().take(FEED_MAX);
        newest
            .filter(|reported| reported.at >= since)
            .filter(|reported| now < reported.at.saturating_add(FEED_RETENTION.get()))
            .take(limit)
            .cloned()
            .collect()
    }

    /// Puts a fingerprint into a cluster.
    pub fn join(&mut self, cluster: &Label, member: &Fingerprint, keep: Retention, now: Timestamp) {
        let until = now.saturating_add(keep.get());
        self.clusters.insert((cluster.clone(), *member), until);
    }

    /// Returns the fingerprints of a cluster, that which stays longest first.
    #[must_use]
    pub fn members(&self, cluster: &Label, now: Timestamp) -> Vec<Fingerprint> {
        let of_it = |((of, member), until): (&(Label, Fingerprint), &Timestamp)| {
            (of == cluster && now < *until).then_some((*until, *member))
        };
        let mut members: Vec<_> = self.clusters.iter().filter_map(of_it).collect();
        members.sort_unstable_by(|one, other| other.cmp(one));
        members.into_iter().map(|(_, member)| member).collect()
    }

    /// Forgets what has outlived its time, nonces aside.
    pub fn forget_outlived(&mut self, now: Timestamp) {
        self.sessions.retain(|_, session| now < session.expires_at);
        let known = self.clone();
        self.addresses
            .retain(|ip, _| known.signal(*ip, now).is_some());
        self.clusters.retain(|_, until| now < *until);
        for feed in self.feeds.values_mut() {
            feed.retain(|reported| now < reported.at.saturating_add(FEED_RETENTION.get()));
        }
        self.feeds.retain(|_, feed| !feed.is_empty());
    }

    /// Counts what is kept, nonces aside.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.sessions.len() + self.addresses.len() + self.clusters.len() + self.feeds.len()
    }

    /// Counts live sessions, their fingerprints, addresses and nonces.
    #[must_use]
    pub fn counts(&self, now: Timestamp) -> [u64; 4] {
        let live = || {
            self.sessions
                .values()
                .filter(|session| now < session.expires_at)
        };
        let fingerprints: BTreeSet<_> = live().map(|session| session.fingerprint).collect();
        let addresses = self.addresses.keys();
        let addresses = addresses.filter(|ip| self.signal(**ip, now).is_some());
        let nonces = self.nonces.values().filter(|until| now < **until);
        [
            live().count() as u64,
            fingerprints.len() as u64,
            addresses.count() as u64,
            nonces.count() as u64,
        ]
    }
}
