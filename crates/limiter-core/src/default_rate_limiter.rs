//! [`DefaultRateLimiter`]: the orchestrator between plans, store and failure policy.

use std::borrow::Borrow;
use std::future::ready;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use smallvec::SmallVec;

use crate::chain::Chain;
use crate::fallback::LocalFailure;
use crate::{
    CheckError, Cost, Decision, FailureLog, FailurePolicy, InProcessRepository, InvalidRequest,
    Key, LocalStore, Observer, Outcome, Plan, PlanName, PlanRegistry, RateLimiter,
    RateLimiterRepository, Receipt, Source, StoreError, UnknownPlan, Verdict, check_request,
};

/// Looks plans up, checks the call, asks the repository, and answers for it by policy when it fails.
///
/// An unknown plan, a cost that a plan can never admit, or a chain that names a plan twice is the caller's error: it is
/// told, and never fails open.
///
/// A store that fails is never silent: each cause is logged, at most once a minute, as [`FailureLog`] says.
///
/// # Cancel safety
/// As the port says. A call that is dropped is not seen by the observer, whatever it spent; under a fallback it may have
/// spent in both stores.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use limiter_core::{DefaultRateLimiter, FailurePolicy, InMemoryPlanRegistry, Plan, RateLimiterRepository};
///
/// fn limiter(store: Arc<dyn RateLimiterRepository>) -> Result<DefaultRateLimiter, Box<dyn std::error::Error>> {
///     let plans = InMemoryPlanRegistry::new([Plan::new("gold", "1/s burst 10")?])?;
///     Ok(DefaultRateLimiter::new(Arc::new(plans), store).with_failure_policy(FailurePolicy::FailClosed))
/// }
/// ```
pub struct DefaultRateLimiter {
    registry: Arc<dyn PlanRegistry>,
    repository: Arc<dyn RateLimiterRepository>,
    observer: Option<Arc<dyn Observer>>,
    policy: FailurePolicy,
    denies_when_full: bool,
    tolerates_misconfiguration: bool,
    log: Arc<FailureLog>,
}

impl DefaultRateLimiter {
    /// Decides by the plans of `registry` on the state in `repository`, failing open.
    #[must_use]
    pub fn new(
        registry: Arc<dyn PlanRegistry>,
        repository: Arc<dyn RateLimiterRepository>,
    ) -> Self {
        Self {
            registry,
            repository,
            observer: None,
            policy: FailurePolicy::FailOpen,
            denies_when_full: false,
            tolerates_misconfiguration: false,
            log: Arc::default(),
        }
    }

    /// Does what `policy` says when the store gives no verdict.
    #[must_use]
    pub fn with_failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Turns a new key away for which a store in process has no room; the decision says [`Source::FailClosed`].
    ///
    /// Else the [failure policy](Self::with_failure_policy) answers for the store. When that is to fail open, whoever makes up enough
    /// keys makes every new key unlimited until others expire.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use limiter_core::{DefaultRateLimiter, PlanRegistry, RateLimiterRepository};
    ///
    /// fn limiter(plans: Arc<dyn PlanRegistry>, in_memory: Arc<dyn RateLimiterRepository>) -> DefaultRateLimiter {
    ///     DefaultRateLimiter::new(plans, in_memory).denying_when_full()
    /// }
    /// ```
    #[must_use]
    pub fn denying_when_full(mut self) -> Self {
        self.denies_when_full = true;
        self
    }

    /// Answers for a store that is set up wrongly, or holds what this version does not understand, as for one that is away: a wrong
    /// password, a missing permission, a foreign value.
    ///
    /// Else [`check`](RateLimiter::check) tells the caller, with [`CheckError::Store`]: to let everything pass would hide a mistake
    /// that does not go away by itself.
    #[must_use]
    pub fn tolerating_misconfiguration(mut self) -> Self {
        self.tolerates_misconfiguration = true;
        self
    }

    /// Writes failures of the store to `log`: one that several limiters of a store share, or one on a clock of your own.
    #[must_use]
    pub fn with_failure_log(mut self, log: Arc<FailureLog>) -> Self {
        self.log = log;
        self
    }

    /// Tells `observer` of every decision and every failure of the store.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Looks up every plan of a chain.
    fn find(&self, names: &[PlanName]) -> Result<SmallVec<[Plan; 1]>, UnknownPlan> {
        names.iter().map(|name| self.registry.find(name)).collect()
    }

    /// Spends if there is plenty of a plan that the registry does not lend out.
    #[inline(never)]
    fn find_and_spend_if_plenty(
        &self,
        store: &dyn InProcessRepository,
        key: &Key,
        name: &PlanName,
        cost: Cost,
    ) -> bool {
        let found = self.registry.find(name);
        found.is_ok_and(|plan| store.spend_if_plenty(key, &plan, cost))
    }

    /// Decides by `chain`, which was checked. Takes the limiter and the key as the caller has them, owned or borrowed, so that
    /// the future needs no other around it.
    #[expect(
        clippy::manual_async_fn,
        reason = "an async fn keeps its arguments twice: as it got them, and as it uses them"
    )]
    fn decide(
        limiter: impl Deref<Target = Self> + Send + Sync,
        key: impl Borrow<Key> + Send + Sync,
        chain: impl Chain,
        cost: Cost,
    ) -> impl Future<Output = Result<Decision, CheckError>> + Send {
        async move {
            // In a block of its own: the answer is large, and not carried along.
            let otherwise = {
                let answer = limiter
                    .repository
                    .try_acquire(key.borrow(), chain.plans(), cost)
                    .await;
                match answer {
                    Ok(ref verdict) => {
                        limiter.log.answered();
                        let decision = Decision::from_verdict(chain, verdict);
                        let decision = decision.charged_to(key.borrow(), cost, false);
                        return Ok(limiter.seen(decision));
                    }
                    Err(error) => limiter.without_verdict(error, key.borrow(), chain, cost),
                }
            };
            otherwise.await
        }
    }

    /// Shows a decision to the observer.
    #[inline]
    fn seen(&self, decision: Decision) -> Decision {
        self.tell(|observer| observer.decided(&decision));
        decision
    }

    #[inline]
    fn tell(&self, of: impl FnOnce(&dyn Observer)) {
        if let Some(observer) = &self.observer {
            of(observer.as_ref());
        }
    }

    /// Answers for a store that gave no verdict. Boxed, so that the calls that get one, nearly all of them, do not carry its room
    /// along.
    #[cold]
    fn without_verdict<'a>(
        &'a self,
        error: StoreError,
        key: &'a Key,
        chain: impl Chain + 'a,
        cost: Cost,
    ) -> BoxedCheck<'a> {
        match self.policy_after(error) {
            Ok(policy) => Box::pin(self.answer_for_store(policy, key, chain, cost)),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    async fn answer_for_store(
        &self,
        policy: &FailurePolicy,
        key: &Key,
        chain: impl Chain,
        cost: Cost,
    ) -> Result<Decision, CheckError> {
        let decision = match policy {
            FailurePolicy::FailOpen => let_pass(),
            FailurePolicy::FailClosed => turned_away(),
            FailurePolicy::Fallback(local) => {
                let shares = local.shares(chain.plans(), cost);
                match local.try_acquire(key, &shares, cost).await {
                    Ok(verdict) => {
                        Decision::from_verdict(chain, &verdict).charged_to(key, cost, true)
                    }
                    Err(error) => {
                        self.local_failed(&error);
                        turned_away()
                    }
                }
            }
        };
        Ok(self.seen(decision))
    }

    /// Returns the policy that answers for a store that failed with `error`; or what the caller is told, if none does.
    fn policy_after(&self, error: StoreError) -> Result<&FailurePolicy, CheckError> {
        let error = self.failed(error);
        match &error {
            CheckError::Store(failure) => self.policy_for(failure).ok_or(error),
            _ => Err(error),
        }
    }

    fn policy_for(&self, failure: &StoreError) -> Option<&FailurePolicy> {
        match failure {
            StoreError::Request(_) => None,
            StoreError::Misconfigured { .. } if !self.tolerates_misconfiguration => None,
            StoreError::Full { .. } if self.denies_when_full => Some(&FailurePolicy::FailClosed),
            _ => Some(&self.policy),
        }
    }

    /// Tells of a local store that failed as well. A call that it refuses to look at is no failure.
    fn local_failed(&self, error: &StoreError) {
        if !matches!(error, StoreError::Request(_)) {
            self.log.local_failed(error);
            self.tell(|observer| observer.store_failed(error));
        }
    }

    /// Decides by `chain`, which was checked, on a store that never waits, as nothing does that stands in for it.
    #[inline]
    fn decide_at_once(
        &self,
        store: &dyn InProcessRepository,
        key: &Key,
        chain: impl Chain,
        cost: Cost,
    ) -> Result<Decision, CheckError> {
        let decision = match store.try_acquire_at_once(key, chain.plans(), cost) {
            Ok(ref verdict) => {
                self.log.answered();
                Decision::from_verdict(chain, verdict).charged_to(key, cost, false)
            }
            Err(error) => match self.policy_after(error)? {
                FailurePolicy::FailOpen => let_pass(),
                FailurePolicy::FailClosed | FailurePolicy::Fallback(_) => turned_away(),
            },
        };
        Ok(self.seen(decision))
    }

    /// Returns the local store of the failure policy, if that is what charged, and not the repository.
    fn local_that_charged(&self, receipt: &Receipt) -> Result<Option<&LocalStore>, InvalidRequest> {
        match &self.policy {
            _ if !receipt.is_by_policy() => Ok(None),
            FailurePolicy::Fallback(local) => Ok(Some(local)),
            FailurePolicy::FailOpen | FailurePolicy::FailClosed => {
                Err(InvalidRequest::ForeignReceipt)
            }
        }
    }

    /// Puts names to a verdict that no policy can answer for, or tells the caller what went wrong.
    fn told(
        &self,
        chain: impl Chain,
        answer: Result<Verdict, StoreError>,
    ) -> Result<Decision, CheckError> {
        let verdict = answer.map_err(|error| self.failed(error))?;
        self.log.answered();
        Ok(Decision::from_verdict(chain, &verdict))
    }

    /// Puts names to a verdict of the local store, which says nothing of the one that it stands in for.
    fn told_by_local(
        &self,
        chain: impl Chain,
        answer: Result<Verdict, StoreError>,
    ) -> Result<Decision, CheckError> {
        match answer {
            Ok(verdict) => Ok(Decision::from_verdict(chain, &verdict)),
            Err(StoreError::Request(request)) => Err(CheckError::Request(request)),
            Err(error) => {
                self.local_failed(&error);
                Err(CheckError::Store(error))
            }
        }
    }

    /// Tells the log and the observer of a failure of the store; what the store refused is the caller's own mistake.
    ///
    /// A decorator that asked its local store instead has told of its failure.
    #[cold]
    fn failed(&self, error: StoreError) -> CheckError {
        match error {
            StoreError::Request(request) => CheckError::Request(request),
            error if LocalFailure::is_in(&error) => CheckError::Store(error),
            error => {
                let policy = self.policy_for(&error);
                let consequence = policy.map_or(NO_POLICY, FailurePolicy::consequence);
                self.log.failed(&error, consequence);
                self.tell(|observer| observer.store_failed(&error));
                CheckError::Store(error)
            }
        }
    }
}

/// A check under way, in the form that the port gives it.
type BoxedCheck<'a> = Pin<Box<dyn Future<Output = Result<Decision, CheckError>> + Send + 'a>>;

/// Checks a chain that was looked up and, if there is one, the cost to be spent under it.
#[inline]
fn checked<C: Chain>(found: Result<C, UnknownPlan>, cost: Option<Cost>) -> Result<C, CheckError> {
    let chain = found?;
    check_request(chain.plans(), cost)?;
    Ok(chain)
}

/// What becomes of requests if no policy answers for a failure.
const NO_POLICY: &str = "requests that need it get an error";

fn let_pass() -> Decision {
    Decision::without_store(Outcome::Allowed, Source::FailOpen)
}

fn turned_away() -> Decision {
    Decision::without_store(Outcome::Unavailable, Source::FailClosed)
}

#[async_trait]
impl RateLimiter for DefaultRateLimiter {
    async fn check(
        &self,
        key: &Key,
        plans: &[PlanName],
        cost: Cost,
    ) -> Result<Decision, CheckError> {
        if let Some(answer) = self.check_at_once(key, plans, cost) {
            return answer;
        }
        let plans = checked(self.find(plans), Some(cost))?;
        Self::decide(self, key, plans, cost).await
    }

    fn check_at_once(
        &self,
        key: &Key,
        plans: &[PlanName],
        cost: Cost,
    ) -> Option<Result<Decision, CheckError>> {
        if matches!(self.policy, FailurePolicy::Fallback(_)) {
            // It may have to wait.
            return None;
        }
        let store = self.repository.in_process()?;
        Some(if let [name] = plans {
            checked(self.registry.find(name), Some(cost))
                .and_then(|plan| self.decide_at_once(store, key, plan, cost))
        } else {
            checked(self.find(plans), Some(cost))
                .and_then(|plans| self.decide_at_once(store, key, plans, cost))
        })
    }

    fn spend_if_plenty(&self, key: &Key, plans: &[PlanName], cost: Cost) -> bool {
        // An observer sees every decision, so there has to be one; and the log learns from one that the store answers again.
        if self.observer.is_none()
            && !self.log.is_failing()
            && let [name] = plans
            && let Some(store) = self.repository.in_process()
        {
            return match self.registry.lend(name) {
                Some(plan) => store.spend_if_plenty(key, plan, cost),
                None => self.find_and_spend_if_plenty(store, key, name, cost),
            };
        }
        false
    }

    fn check_detached(
        self: Arc<Self>,
        key: Key,
        plans: &[PlanName],
        cost: Cost,
    ) -> BoxedCheck<'static> {
        if let [name] = plans {
            return match checked(self.registry.find(name), Some(cost)) {
                Ok(plan) => Box::pin(Self::decide(self, key, plan, cost)),
                Err(error) => Box::pin(ready(Err(error))),
            };
        }
        match checked(self.find(plans), Some(cost)) {
            Ok(plans) => Box::pin(Self::decide(self, key, plans, cost)),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    async fn peek(
        &self,
        key: &Key,
        plans: &[PlanName],
        cost: Cost,
    ) -> Result<Decision, CheckError> {
        let plans = checked(self.find(plans), Some(cost))?;
        let answer = self.repository.peek(key, &plans, cost).await;
        self.told(plans, answer)
    }

    async fn refund(&self, receipt: &mut Receipt, units: Cost) -> Result<Decision, CheckError> {
        let plans = self.find(receipt.plans())?;
        let (local, refund) = (self.local_that_charged(receipt)?, receipt.refund(units)?);
        // Before the store is asked: a call that is dropped may have given the units back.
        receipt.note(units);
        let answer = match local {
            Some(local) => local.refund(receipt.key(), &plans, &refund).await,
            None => self.repository.refund(receipt.key(), &plans, &refund).await,
        };
        if matches!(&answer, Err(error) if !error.may_have_charged()) {
            receipt.forget(units);
        }
        match local {
            Some(_) => self.told_by_local(plans, answer),
            None => self.told(plans, answer),
        }
    }

    async fn reset(&self, key: &Key, plans: &[PlanName]) -> Result<(), CheckError> {
        let plans = checked(self.find(plans), None)?;
        if let FailurePolicy::Fallback(local) = &self.policy {
            let forgotten = local.reset(key, &plans).await;
            let forgotten = forgotten.inspect_err(|error| self.local_failed(error));
            forgotten.map_err(CheckError::Store)?;
        }
        self.repository
            .reset(key, &plans)
            .await
            .map_err(|error| self.failed(error))
    }
}
