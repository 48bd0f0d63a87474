//! [`SessionStore`]: the outbound port to sessions that all nodes share.

use async_trait::async_trait;
use limiter_core::StoreError;

use crate::{Fingerprint, Observed, Retention, Session, SessionId, Visit};

/// The most sessions that [`SessionStore::by_fingerprint`] returns: those that live longest.
pub const BY_FINGERPRINT_MAX: usize = 1000;

/// Keeps sessions where every node that shares them can reach them.
///
/// # Contract
/// Each line is a law of `limiter-testkit`; a store adopts them all with one macro.
/// - The same fingerprint from the same address is one session: of racing observers exactly one MUST begin it, and every
///   request MUST be counted once.
/// - `last_seen` MUST NOT move back, whatever the clock does. A session lives until its retention has passed since then.
/// - A dead session MUST NOT be returned, by whatever way it is asked for. An ended one MUST NOT come back: neither `touch`
///   nor `get` find its id again, and the next visit begins a session with another id.
/// - A visit MUST also be counted in the signals of its address; where those live on another node, one may be missed.
/// - What is kept for a fingerprint is bounded, and nothing of a dead session stays behind.
/// - A call MUST answer or fail before its deadline, and one that may have run MUST NOT be tried again by the store.
///
/// # Cancel safety
/// A dropped call may still take effect, once.
#[cfg_attr(any(test, feature = "mock"), mockall::automock)]
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Finds or begins the session of a visit, and counts the request in it and in the signals of its address.
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no answer; it says whether the request may have been counted.
    ///
    /// # Cancel safety
    /// A dropped call may still have begun the session and counted the request, once.
    async fn observe(&self, visit: &Visit, retention: Retention) -> Result<Observed, StoreError>;

    /// Counts a request of the session called `id`; `None` if there is no such session any more.
    ///
    /// The signals of its address stay as they are: only [`observe`](Self::observe) counts there.
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no answer; it says whether the request may have been counted.
    ///
    /// # Cancel safety
    /// A dropped call may still have counted the request, once.
    async fn touch(
        &self,
        id: &SessionId,
        retention: Retention,
    ) -> Result<Option<Session>, StoreError>;

    /// Reads the session called `id`; `None` if there is no such session any more.
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no answer.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    async fn get(&self, id: &SessionId) -> Result<Option<Session>, StoreError>;

    /// Ends the session called `id`; returns whether it lived.
    ///
    /// # Errors
    /// [`StoreError`] if the store did not confirm it.
    ///
    /// # Cancel safety
    /// A dropped call may still have ended the session.
    async fn end(&self, id: &SessionId) -> Result<bool, StoreError>;

    /// Returns the live sessions of a fingerprint, that which lives longest first: at most [`BY_FINGERPRINT_MAX`].
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no answer.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    async fn by_fingerprint(&self, fingerprint: &Fingerprint)
    -> Result<Vec<SessionId>, StoreError>;
}
