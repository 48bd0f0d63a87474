//! [`DefaultAbuseLimiter`]: the orchestrator between policy, store and failure policy.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    AbuseDecision, AbuseOutcome, AbusePolicy, AbuseVerdict, Block, BlockChange, BlockEvent,
};
use crate::{
    AbuseLimiter, AbuseRepository, FailureLog, Key, NoObserver, Observer, Source, StoreError,
};

/// What to do with an attempt when the store gives no verdict, be it away, full or set up wrongly.
#[derive(Clone)]
#[non_exhaustive]
pub enum AbuseFailurePolicy {
    /// Ask a local repository, which must not depend on the shared one; the decision says [`Source::Fallback`].
    ///
    /// Each node then counts by itself, with the full thresholds, and does not know of blocks in the shared store: `n`
    /// nodes together let through at most `n x (threshold - 1)` attempts before all of them block. What the local
    /// repository cannot answer either is turned away.
    Fallback(Arc<dyn AbuseRepository>),
    /// Turn it away; the decision says [`Source::FailClosed`].
    FailClosed,
    /// Let it pass, uncounted; the decision says [`Source::FailOpen`]. An attacker who can bring the store down then has
    /// no limit at all.
    FailOpen,
}

/// Asks the repository about attempts, and answers for it by policy when it fails.
///
/// There is no way to fail open by accident: [`new`](Self::new) takes the local repository that stands in.
///
/// A store that fails is never silent: each cause is logged, at most once a minute, as [`FailureLog`] says.
///
/// # Cancel safety
/// As the port says, in each of the two repositories: a dropped `forgive` or `unblock` may have reached the local one alone.
/// A call that is dropped is not seen by the observer, whatever it did.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use limiter_core::{AbuseFailurePolicy, AbuseRepository, DefaultAbuseLimiter};
///
/// fn limiter(shared: Arc<dyn AbuseRepository>, local: Arc<dyn AbuseRepository>) -> DefaultAbuseLimiter {
///     DefaultAbuseLimiter::new(shared, local)
/// }
///
/// fn strict(shared: Arc<dyn AbuseRepository>) -> DefaultAbuseLimiter {
///     DefaultAbuseLimiter::with_failure_policy(shared, AbuseFailurePolicy::FailClosed)
/// }
/// ```
pub struct DefaultAbuseLimiter {
    repository: Arc<dyn AbuseRepository>,
    policy: AbuseFailurePolicy,
    denies_when_full: bool,
    observer: Arc<dyn Observer>,
    log: Arc<FailureLog>,
}

impl DefaultAbuseLimiter {
    /// Decides on the state in `repository`; `local`, which must not depend on it, stands in when it fails.
    #[must_use]
    pub fn new(repository: Arc<dyn AbuseRepository>, local: Arc<dyn AbuseRepository>) -> Self {
        Self::with_failure_policy(repository, AbuseFailurePolicy::Fallback(local))
    }

    /// Decides on the state in `repository`, and does what `policy` says when it fails.
    #[must_use]
    pub fn with_failure_policy(
        repository: Arc<dyn AbuseRepository>,
        policy: AbuseFailurePolicy,
    ) -> Self {
        Self {
            repository,
            policy,
            denies_when_full: false,
            observer: Arc::new(NoObserver),
            log: Arc::default(),
        }
    }

    /// Turns a new key away for which a store in process has no room; the decision says [`Source::FailClosed`]. Else the failure
    /// policy answers for the store.
    #[must_use]
    pub fn denying_when_full(mut self) -> Self {
        self.denies_when_full = true;
        self
    }

    /// Writes failures of the store to `log`: one that several limiters of a store share, or one on a clock of your own.
    #[must_use]
    pub fn with_failure_log(mut self, log: Arc<FailureLog>) -> Self {
        self.log = log;
        self
    }

    /// Tells `observer` of every decision on an attempt, every block and unblock, and every failure of the store.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    fn policy_for(&self, error: &StoreError) -> &AbuseFailurePolicy {
        match error {
            StoreError::Full { .. } if self.denies_when_full => &AbuseFailurePolicy::FailClosed,
            _ => &self.policy,
        }
    }

    /// Decides in the place of a store that failed with `error`: by what the local one said, if it was asked.
    fn stand_in(
        &self,
        policy: &AbusePolicy,
        error: StoreError,
        local: Option<Result<AbuseVerdict, StoreError>>,
    ) -> AbuseDecision {
        let decision = match (self.policy_for(&error), local) {
            (AbuseFailurePolicy::FailOpen, _) => {
                AbuseDecision::without_store(policy, AbuseOutcome::Allowed, Source::FailOpen)
            }
            (AbuseFailurePolicy::Fallback(_), Some(Ok(verdict))) => {
                AbuseDecision::from_verdict(policy, by_fallback(verdict))
            }
            (AbuseFailurePolicy::Fallback(_) | AbuseFailurePolicy::FailClosed, local) => {
                if let Some(Err(error)) = local {
                    self.local_failed(&error);
                }
                AbuseDecision::without_store(policy, AbuseOutcome::Unavailable, Source::FailClosed)
            }
        };
        decision.because_of(Arc::new(self.failed(error)))
    }

    /// Tells the log and the observer of a failure of the store.
    fn failed(&self, error: StoreError) -> StoreError {
        self.log
            .failed(&error, self.policy_for(&error).consequence());
        self.observer.store_failed(&error);
        error
    }

    /// Tells the log and the observer of a failure of the local store.
    fn local_failed(&self, error: &StoreError) {
        self.log.local_failed(error);
        self.observer.store_failed(error);
    }

    /// Tells the log of an answer of the store.
    fn answered<T>(&self, answer: T) -> T {
        self.log.answered();
        answer
    }
}

impl AbuseFailurePolicy {
    fn local(&self) -> Option<&dyn AbuseRepository> {
        match self {
            Self::Fallback(local) => Some(local.as_ref()),
            Self::FailClosed | Self::FailOpen => None,
        }
    }

    /// Says what becomes of attempts, for the log.
    const fn consequence(&self) -> &'static str {
        match self {
            Self::Fallback(_) => "attempts that need it are counted by the local store (fallback)",
            Self::FailClosed => "attempts that need it are turned away (fail_closed)",
            Self::FailOpen => "attempts that need it pass uncounted (fail_open)",
        }
    }
}

fn by_fallback(verdict: AbuseVerdict) -> AbuseVerdict {
    AbuseVerdict {
        source: Source::Fallback,
        ..verdict
    }
}

#[async_trait]
impl AbuseLimiter for DefaultAbuseLimiter {
    async fn record(&self, key: &Key, policy: &AbusePolicy) -> AbuseDecision {
        let decision = match self.repository.record(key, policy).await {
            Ok(verdict) => AbuseDecision::from_verdict(policy, self.answered(verdict)),
            Err(error) => {
                let local = match self.policy_for(&error).local() {
                    Some(local) => Some(local.record(key, policy).await),
                    None => None,
                };
                self.stand_in(policy, error, local)
            }
        };
        if let Some(event) = decision.event() {
            self.observer.block_changed(&event);
        }
        self.observer.attempt_decided(&decision);
        decision
    }

    async fn status(&self, key: &Key, policy: &AbusePolicy) -> AbuseDecision {
        match self.repository.status(key, policy).await {
            Ok(verdict) => AbuseDecision::from_verdict(policy, self.answered(verdict)),
            Err(error) => {
                let local = match self.policy_for(&error).local() {
                    Some(local) => Some(local.status(key, policy).await),
                    None => None,
                };
                self.stand_in(policy, error, local)
            }
        }
    }

    async fn forgive(&self, key: &Key, policy: &AbusePolicy) -> Result<(), StoreError> {
        if let Some(local) = self.policy.local() {
            let forgiven = local.forgive(key, policy).await;
            forgiven.inspect_err(|error| self.local_failed(error))?;
        }
        let forgiven = self.repository.forgive(key, policy).await;
        forgiven
            .map(|()| self.answered(()))
            .map_err(|error| self.failed(error))
    }

    async fn unblock(&self, key: &Key, policy: &AbusePolicy) -> Result<Option<Block>, StoreError> {
        let by_local = match self.policy.local() {
            Some(local) => {
                let lifted = local.unblock(key, policy).await;
                lifted.inspect_err(|error| self.local_failed(error))?
            }
            None => None,
        };
        let shared = self.repository.unblock(key, policy).await;
        let lifted = shared.as_ref().ok().cloned().flatten().or(by_local);
        if let Some(block) = &lifted {
            self.observer.block_changed(&BlockEvent {
                policy: policy.name().clone(),
                scope: block.scope.clone(),
                change: BlockChange::Lifted,
                enforcement: policy.enforcement(),
            });
        }
        match shared {
            Ok(_) => Ok(self.answered(lifted)),
            Err(error) => Err(self.failed(error)),
        }
    }
}
