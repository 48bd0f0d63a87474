//! [`Session`]: what is known of a visitor.

use limiter_core::Timestamp;

use crate::{BotProbability, Country, Fingerprint, Retention, SessionId, Visit, VisitorIp};

/// What is known of a visitor: the same fingerprint from the same address is one session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Session {
    /// Its name.
    pub id: SessionId,
    /// What the browser looks like.
    pub fingerprint: Fingerprint,
    /// Where the visitor comes from.
    pub ip: VisitorIp,
    /// When the first request came.
    pub first_seen: Timestamp,
    /// When the latest request came. Never moves back.
    pub last_seen: Timestamp,
    /// From this moment on the session is dead, unless another request comes.
    pub expires_at: Timestamp,
    /// How many requests came.
    pub request_count: u64,
    /// How likely it is a bot, as last told.
    pub bot_probability: Option<BotProbability>,
    /// Where the address is registered, as last told.
    pub country: Option<Country>,
}

impl Session {
    /// Begins a session with its first request.
    #[must_use]
    pub fn begin(id: SessionId, visit: &Visit, now: Timestamp, retention: Retention) -> Self {
        Self {
            id,
            fingerprint: visit.fingerprint,
            ip: visit.ip,
            first_seen: now,
            last_seen: now,
            expires_at: now.saturating_add(retention.get()),
            request_count: 1,
            bot_probability: visit.bot_probability,
            country: visit.country,
        }
    }

    /// Counts one more request. A clock that stepped back counts as standing still.
    pub fn count(&mut self, now: Timestamp, retention: Retention) {
        self.last_seen = self.last_seen.max(now);
        self.expires_at = self.last_seen.saturating_add(retention.get());
        self.request_count = self.request_count.saturating_add(1);
    }

    /// Takes over what a visit tells anew.
    pub fn learn(&mut self, visit: &Visit) {
        self.bot_probability = visit.bot_probability.or(self.bot_probability);
        self.country = visit.country.or(self.country);
    }

    /// Returns whether the session lives at `now`.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        now < self.expires_at
    }

    /// Returns whether the session is that of `visit`.
    #[must_use]
    pub fn is_of(&self, visit: &Visit) -> bool {
        self.fingerprint == visit.fingerprint && self.ip == visit.ip
    }
}

/// What became of an observed visit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct Observed {
    /// The session, this request counted.
    pub session: Session,
    /// Whether this request began it.
    pub is_new: bool,
    /// Whether the signals of the address have counted it too. On a cluster, and behind a proxy that spreads keys, they live on
    /// another server, and may miss a request that the session has counted.
    pub in_signals: bool,
}

impl Observed {
    /// Tells what became of a visit.
    pub const fn new(session: Session, is_new: bool, in_signals: bool) -> Self {
        Self {
            session,
            is_new,
            in_signals,
        }
    }
}
