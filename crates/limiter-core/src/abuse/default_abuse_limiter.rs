//! [`DefaultAbuseLimiter`]: the orchestrator between policy, store and failure policy.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    AbuseDecision, AbuseOutcome, AbusePolicy, AbuseVerdict, Block, BlockChange, BlockEvent,
};
use crate::{AbuseLimiter, AbuseRepository, Key, NoObserver, Observer, Source, StoreError};

/// What to do with an attempt when the store gives no verdict.
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
    observer: Arc<dyn Observer>,
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
            observer: Arc::new(NoObserver),
        }
    }

    /// Tells `observer` of every decision on an attempt, every block and unblock, and every failure of the store.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    fn local(&self) -> Option<&dyn AbuseRepository> {
        match &self.policy {
            AbuseFailurePolicy::Fallback(local) => Some(local.as_ref()),
            AbuseFailurePolicy::FailClosed | AbuseFailurePolicy::FailOpen => None,
        }
    }

    /// Decides in the place of a store that failed with `error`: by what the local one said, if it was asked.
    fn stand_in(
        &self,
        policy: &AbusePolicy,
        error: StoreError,
        local: Option<Result<AbuseVerdict, StoreError>>,
    ) -> AbuseDecision {
        let decision = match (&self.policy, local) {
            (AbuseFailurePolicy::FailOpen, _) => {
                AbuseDecision::without_store(policy, AbuseOutcome::Allowed, Source::FailOpen)
            }
            (AbuseFailurePolicy::Fallback(_), Some(Ok(verdict))) => {
                AbuseDecision::from_verdict(policy, by_fallback(verdict))
            }
            (AbuseFailurePolicy::Fallback(_) | AbuseFailurePolicy::FailClosed, _) => {
                AbuseDecision::without_store(policy, AbuseOutcome::Unavailable, Source::FailClosed)
            }
        };
        decision.because_of(Arc::new(self.failed(error)))
    }

    fn failed(&self, error: StoreError) -> StoreError {
        self.observer.store_failed(&error);
        error
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
            Ok(verdict) => AbuseDecision::from_verdict(policy, verdict),
            Err(error) => {
                let local = match self.local() {
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
            Ok(verdict) => AbuseDecision::from_verdict(policy, verdict),
            Err(error) => {
                let local = match self.local() {
                    Some(local) => Some(local.status(key, policy).await),
                    None => None,
                };
                self.stand_in(policy, error, local)
            }
        }
    }

    async fn forgive(&self, key: &Key, policy: &AbusePolicy) -> Result<(), StoreError> {
        if let Some(local) = self.local() {
            local.forgive(key, policy).await?;
        }
        let forgiven = self.repository.forgive(key, policy).await;
        forgiven.map_err(|error| self.failed(error))
    }

    async fn unblock(&self, key: &Key, policy: &AbusePolicy) -> Result<Option<Block>, StoreError> {
        let by_local = match self.local() {
            Some(local) => local.unblock(key, policy).await?,
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
            Ok(_) => Ok(lifted),
            Err(error) => Err(self.failed(error)),
        }
    }
}
