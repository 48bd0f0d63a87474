//! [`Attempt`]: the handler's word on an attempt.

use std::fmt;
use std::sync::Arc;

use limiter_core::{AbuseGuard, Key};

use super::ledger::Ledger;
use super::settings::AbuseSettings;
use super::{AttemptOutcome, Counting};
use crate::Rejection;

/// The attempt that a request is: the handler says how it ended, and who else it is an attempt of.
///
/// An [`AbuseLayer`](crate::AbuseLayer) puts it into the request's extensions, and with the feature `axum` it is an extractor. Of
/// several layers the innermost one's policy and answers are taken; the word on how it ended is for all of them. What the
/// handler says comes before what the response's status says; of several words the last one counts.
///
/// # Examples
/// ```
/// use limiter_axum::{Attempt, Key, Rejection};
///
/// async fn sign_in(attempt: Attempt, form: String) -> Result<&'static str, Rejection> {
///     let (name, password) = form.split_once('&').unwrap_or_default();
///     // The login name is known only here; an attacker with many addresses meets its block.
///     if let Ok(login) = Key::new(format!("login:{name}")) {
///         attempt.by(&login).await?;
///     }
///     if password == "hunter2" {
///         attempt.succeeded();
///         return Ok("welcome");
///     }
///     attempt.failed();
///     Ok("wrong password") // 200: without the handler's word this would forgive
/// }
/// ```
#[derive(Clone)]
pub struct Attempt {
    pub(super) ledger: Arc<Ledger>,
    pub(super) settings: Arc<AbuseSettings>,
    pub(super) counting: Counting,
    /// The layer does not look at the request.
    pub(super) exempt: bool,
    pub(super) grpc: bool,
}

impl Attempt {
    /// Says that the caller was wrong.
    pub fn failed(&self) {
        self.ledger.say(AttemptOutcome::Failed);
    }

    /// Says that the caller was right: earlier attempts are forgiven.
    pub fn succeeded(&self) {
        self.ledger.say(AttemptOutcome::Succeeded);
    }

    /// Says that nobody was wrong or right.
    pub fn undecided(&self) {
        self.ledger.say(AttemptOutcome::Undecided);
    }

    /// Makes this an attempt of `key` as well, under the layer's policy: counted at most once in a request, and settled with it.
    ///
    /// The key reaches the store as it is: make it of a secret, such as a code, with
    /// [`Key::of_secret`].
    ///
    /// Keys of different kinds share a block where they are the same bytes: give each kind a prefix, such as `login:`, or a
    /// policy of its own with [`under`](Self::under).
    ///
    /// # Errors
    /// [`Rejection`] if `key` is blocked, or the store failed and nothing could stand in for it. Return it: it is a response.
    ///
    /// # Cancel safety
    /// A dropped call may have counted the attempt, once.
    pub async fn by(&self, key: &Key) -> Result<(), Rejection> {
        self.enter(&self.settings.guard, key).await
    }

    /// Makes this an attempt of `key` as well, under the policy of another guard. A policy is known by its name: under one of the
    /// same name as the layer's, the same key is counted once.
    ///
    /// # Errors
    /// As [`by`](Self::by).
    ///
    /// # Cancel safety
    /// A dropped call may have counted the attempt, once.
    pub async fn under(&self, guard: &Arc<AbuseGuard>, key: &Key) -> Result<(), Rejection> {
        self.enter(guard, key).await
    }

    async fn enter(&self, guard: &Arc<AbuseGuard>, key: &Key) -> Result<(), Rejection> {
        if self.exempt {
            return Ok(());
        }
        let entered = self
            .ledger
            .enter(&self.settings, self.counting, guard, key)
            .await;
        entered.map_err(|refusal| self.settings.refused(guard, refusal, self.grpc))
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("policy", self.settings.guard.policy().name())
            .field("word", &self.ledger.word())
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "axum")]
impl<S: Sync> axum::extract::FromRequestParts<S> for Attempt {
    type Rejection = Rejection;

    async fn from_request_parts(
        parts: &mut http::request::Parts,
        _: &S,
    ) -> Result<Self, Rejection> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            let rejection = Rejection::misconfigured(
                "the handler asks for an Attempt, but there is no AbuseLayer around it; put one on the route",
            );
            tracing::error!(target: "limiter", "{rejection}");
            rejection
        })
    }
}
