//! [`SessionService`]: what a web service asks about its visitors.

use std::sync::Arc;

use limiter_core::{FailureLog, Key, StoreError};

use crate::{
    Anomaly, AnomalyFeed, IpSignal, IpSignals, Nonce, NonceStore, NonceUse, Observed, Retention,
    SessionPorts, SessionStore, Visit, VisitorIp,
};

/// Joins the ports: observes visits, verifies nonces, reports anomalies.
///
/// A store that fails is told to the caller, and is never silent besides: each cause is logged, at most once a minute, as
/// [`FailureLog`] says.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use limiter_core::Key;
/// use limiter_sessions::{Nonce, Retention, SessionPorts, SessionService, Visit};
///
/// # async fn example(store: Arc<dyn SessionPorts>) -> Result<(), Box<dyn std::error::Error>> {
/// let service = SessionService::on(store).with_retention(Retention::HOUR);
/// let visit = Visit::new("ab".repeat(32).parse()?, "203.0.113.9".parse()?);
/// let seen = service.observe(&visit).await?;
/// let nonce = Nonce::new("7f3a-01")?;
/// if !service.verify_nonce(&Key::new("checkout")?, &nonce).await.is_accepted() {
///     println!("session {} sends again what it sent before", seen.session.id);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SessionService {
    sessions: Arc<dyn SessionStore>,
    nonces: Arc<dyn NonceStore>,
    signals: Arc<dyn IpSignals>,
    feed: Arc<dyn AnomalyFeed>,
    retention: Retention,
    nonce_window: Retention,
    log: Arc<FailureLog>,
}

/// What becomes of requests while the store fails, for the log.
const CONSEQUENCE: &str = "nonces are not accepted, and whoever observes or reads gets an error";

impl SessionService {
    /// Keeps everything in one store.
    #[must_use]
    pub fn on(store: Arc<dyn SessionPorts>) -> Self {
        Self::new(store.clone(), store.clone(), store.clone(), store)
    }

    /// Keeps each thing in a store of its own.
    #[must_use]
    pub fn new(
        sessions: Arc<dyn SessionStore>,
        nonces: Arc<dyn NonceStore>,
        signals: Arc<dyn IpSignals>,
        feed: Arc<dyn AnomalyFeed>,
    ) -> Self {
        Self {
            sessions,
            nonces,
            signals,
            feed,
            retention: Retention::DAY,
            nonce_window: Retention::FIVE_MINUTES,
            log: Arc::default(),
        }
    }

    /// Writes failures of the store to `log`: one that is shared with limiters of the same store, or one on a clock of your own.
    #[must_use]
    pub fn with_failure_log(mut self, log: Arc<FailureLog>) -> Self {
        self.log = log;
        self
    }

    fn logged<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        match &answer {
            Ok(_) => self.log.answered(),
            Err(error) => self.log.failed(error, CONSEQUENCE),
        }
        answer
    }

    /// Sets how long a session is kept after its latest request; a day if it is left out.
    #[must_use]
    pub const fn with_retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Sets how long a nonce is remembered; five minutes if it is left out. It has to cover how old a request may be and how
    /// far a client's clock may be ahead.
    #[must_use]
    pub const fn with_nonce_window(mut self, window: Retention) -> Self {
        self.nonce_window = window;
        self
    }

    /// Finds or begins the session of a visit, and counts the request in it and in the signals of its address.
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no answer; it says whether the request may have been counted.
    ///
    /// # Cancel safety
    /// A dropped call may still take effect, once.
    pub async fn observe(&self, visit: &Visit) -> Result<Observed, StoreError> {
        self.logged(self.sessions.observe(visit, self.retention).await)
    }

    /// Says whether `nonce` is used for the first time within `scope`: a client, a session, a form. Fails closed: what the
    /// store cannot tell is not accepted.
    ///
    /// Verify the nonce after everything else about a request was found good, so that a bad request uses up none.
    ///
    /// # Cancel safety
    /// A dropped call may still use the nonce up.
    pub async fn verify_nonce(&self, scope: &Key, nonce: &Nonce) -> NonceVerdict {
        let used = self.nonces.consume(scope, nonce, self.nonce_window).await;
        match self.logged(used) {
            Ok(NonceUse::First) => NonceVerdict::Accepted,
            Ok(NonceUse::Replay) => NonceVerdict::Replayed,
            Err(error) => NonceVerdict::Unverified(error),
        }
    }

    /// Puts an anomaly into the feed.
    ///
    /// # Errors
    /// [`StoreError`] if the store did not confirm it.
    ///
    /// # Cancel safety
    /// A dropped call may still take effect, once.
    pub async fn report(&self, anomaly: &Anomaly) -> Result<(), StoreError> {
        self.logged(self.feed.push(anomaly).await)
    }

    /// Reads what is known of an address.
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no answer.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn signal(&self, ip: VisitorIp) -> Result<Option<IpSignal>, StoreError> {
        self.logged(self.signals.signal(ip).await)
    }
}

impl std::fmt::Debug for SessionService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionService")
            .field("retention", &self.retention)
            .field("nonce_window", &self.nonce_window)
            .finish_non_exhaustive()
    }
}

/// Whether a request with a nonce may go on. Only [`Accepted`](Self::Accepted) says so.
#[derive(Debug)]
#[must_use = "a verdict that is not looked at stops no replay"]
pub enum NonceVerdict {
    /// The nonce is used for the first time.
    Accepted,
    /// The nonce was used before: turn the request away.
    Replayed,
    /// The store gave no answer: turn the request away, as one that could be sent again with a fresh nonce.
    Unverified(StoreError),
}

impl NonceVerdict {
    /// Returns whether the request may go on.
    #[must_use]
    pub const fn is_accepted(&self) -> bool {
        matches!(self, Self::Accepted)
    }
}
