//! [`AbuseGuard`]: one flow, guarded by one policy.

use std::sync::Arc;

use super::{
    AbuseDecision, AbuseOutcome, AbusePolicy, InvalidAbusePolicy, Refusal, RefusalCode, Tier,
};
use crate::log::with_causes;
use crate::verify::{TRIES, is_misconfigured, nobody};
use crate::{AbuseLimiter, Enforcement, Key, StoreError, seconds};

/// Guards one flow by one policy: `Ok(())`, or a ready error value to send back.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use limiter_core::{AbuseGuard, AbuseLimiter, AbusePolicy, Key, Refusal};
///
/// async fn sign_in(guard: &AbuseGuard, user: &Key, password_is_right: bool) -> Result<bool, Refusal> {
///     guard.attempt(user).await?; // before the password is looked at
///     if password_is_right {
///         guard.succeeded(user).await?;
///     }
///     Ok(password_is_right)
/// }
///
/// fn guard(limiter: Arc<dyn AbuseLimiter>, policy: AbusePolicy) -> AbuseGuard {
///     AbuseGuard::for_sign_in(limiter, policy).naming("the password")
/// }
/// ```
#[derive(Clone)]
pub struct AbuseGuard {
    limiter: Arc<dyn AbuseLimiter>,
    policy: AbusePolicy,
    code: RefusalCode,
    action: Option<String>,
    tells_details: bool,
}

impl AbuseGuard {
    /// Guards a sign-in flow: logins, codes to be verified. Blocks are told as `too_many_attempts`.
    #[must_use]
    pub fn for_sign_in(limiter: Arc<dyn AbuseLimiter>, policy: AbusePolicy) -> Self {
        Self::with_code(limiter, policy, RefusalCode::TooManyAttempts)
    }

    /// Guards any other flow. Blocks are told as `rate_limited`.
    #[must_use]
    pub fn for_requests(limiter: Arc<dyn AbuseLimiter>, policy: AbusePolicy) -> Self {
        Self::with_code(limiter, policy, RefusalCode::RateLimited)
    }

    fn with_code(limiter: Arc<dyn AbuseLimiter>, policy: AbusePolicy, code: RefusalCode) -> Self {
        Self {
            limiter,
            policy,
            code,
            action: None,
            tells_details: false,
        }
    }

    /// Says in messages what there were too many attempts for: "Too many attempts for `action`. ..."
    #[must_use]
    pub fn naming(mut self, action: impl Into<String>) -> Self {
        self.action = Some(action.into());
        self
    }

    /// Tells in [`Refusal::details`] how the store failed. For debug builds and inner networks: it may name hosts.
    #[must_use]
    pub fn telling_details(mut self) -> Self {
        self.tells_details = true;
        self
    }

    /// Returns the policy.
    #[must_use]
    pub const fn policy(&self) -> &AbusePolicy {
        &self.policy
    }

    /// Counts an attempt of `key`.
    ///
    /// # Errors
    /// [`Refusal`] if a block is in force, or if the store failed and nothing could stand in for it.
    ///
    /// # Cancel safety
    /// A dropped call may still have counted the attempt, once.
    pub async fn attempt(&self, key: &Key) -> Result<(), Refusal> {
        self.refusal_of(&self.limiter.record(key, &self.policy).await)
    }

    /// Says whether an attempt of `key` would meet a block, and counts nothing.
    ///
    /// # Errors
    /// As [`attempt`](Self::attempt).
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn look(&self, key: &Key) -> Result<(), Refusal> {
        self.refusal_of(&self.limiter.status(key, &self.policy).await)
    }

    /// Forgets the attempts of `key`, after a success.
    ///
    /// # Errors
    /// [`Refusal`] if the store did not confirm it. Nothing is lost by going on: the attempts leave their windows by
    /// themselves. Under a policy in shadow this is no error.
    ///
    /// # Cancel safety
    /// A dropped call may still have forgotten the attempts.
    pub async fn succeeded(&self, key: &Key) -> Result<(), Refusal> {
        match self.limiter.forgive(key, &self.policy).await {
            Err(error) if self.policy.enforcement() == Enforcement::Enforced => {
                Err(self.trouble(Some(&error)))
            }
            _ => Ok(()),
        }
    }

    /// Asks the limiter, and it the store, for the attempts of nobody, and records one that is
    /// forgotten again: finds a store that is set up wrongly when the service starts, and not at
    /// the first attempt.
    ///
    /// The attempt is under a policy of its own, `limiter.verify`, in shadow, which the observer
    /// sees. A store that gives no answer is asked up to ten times, which is half a second with the
    /// usual deadline; that it is away is not what is looked for, and the limiter logs it.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if the store does not know the password, grants too little or holds what this version does not
    /// understand.
    ///
    /// # Cancel safety
    /// A dropped call may leave an attempt of nobody, for a second.
    pub async fn verify(&self) -> Result<(), Arc<StoreError>> {
        let nobody = nobody();
        let mut decision = self.limiter.status(&nobody, &self.policy).await;
        for _ in 1..TRIES {
            if decision.failure().is_none_or(is_misconfigured) {
                break;
            }
            decision = self.limiter.status(&nobody, &self.policy).await;
        }
        decision.misconfiguration().map_or(Ok(()), Err)?;
        let Ok(trial) = trial() else { return Ok(()) };
        let recorded = self.limiter.record(&nobody, &trial).await;
        recorded.misconfiguration().map_or(Ok(()), Err)?;
        match self.limiter.forgive(&nobody, &trial).await {
            Err(error) if is_misconfigured(&error) => Err(Arc::new(error)),
            _ => Ok(()),
        }
    }

    fn refusal_of(&self, decision: &AbuseDecision) -> Result<(), Refusal> {
        match decision.outcome() {
            AbuseOutcome::Allowed => Ok(()),
            AbuseOutcome::Blocked { retry_after, .. } => Err(Refusal::blocked(
                self.code,
                self.action.as_deref(),
                *retry_after,
            )),
            AbuseOutcome::Unavailable => Err(self.trouble(decision.failure())),
        }
    }

    fn trouble(&self, error: Option<&StoreError>) -> Refusal {
        let code = match error {
            Some(StoreError::Misconfigured { .. } | StoreError::Request(_)) => {
                RefusalCode::Internal
            }
            _ => RefusalCode::ServiceUnavailable,
        };
        let refusal = Refusal::in_trouble(code);
        match error.filter(|_| self.tells_details) {
            Some(error) => refusal.with_details(with_causes(error)),
            None => refusal,
        }
    }
}

/// The policy of an attempt that only shows that attempts can be recorded. Nobody reaches its
/// threshold.
fn trial() -> Result<AbusePolicy, InvalidAbusePolicy> {
    let policy =
        AbusePolicy::builder("limiter.verify").tier(Tier::new("trial", 10_000, seconds(1)));
    policy.in_shadow().build()
}
