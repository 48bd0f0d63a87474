//! [`DefaultRateLimiter`]: the orchestrator between plans, store and failure policy.

use std::future::ready;
use std::pin::Pin;
use std::slice;
use std::sync::Arc;

use async_trait::async_trait;

use crate::decision::FewPlans;
use crate::{
    CheckError, Cost, Decision, Key, LocalStore, Observer, Outcome, Plan, PlanName, PlanRegistry,
    RateLimiter, RateLimiterRepository, Source, StoreError, Verdict, check_request,
};

/// What to do with a request when the store gives no verdict.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum FailurePolicy {
    /// Let it pass, unlimited; the decision says [`Source::FailOpen`].
    #[default]
    FailOpen,
    /// Turn it away; the decision says [`Source::FailClosed`].
    FailClosed,
    /// Ask a local store that grants this node's share of each limit; the decision says [`Source::Fallback`]. What the
    /// local store cannot answer either is turned away.
    Fallback(LocalStore),
}

/// Looks plans up, checks the call, asks the repository, and answers for it by policy when it fails.
///
/// An unknown plan, a cost that a plan can never admit, or a chain that names a plan twice is the caller's error: it is
/// told, and never fails open.
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
        }
    }

    /// Does what `policy` says when the store gives no verdict.
    #[must_use]
    pub fn with_failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Tells `observer` of every decision and every failure of the store.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    #[inline]
    fn plan(&self, name: &PlanName, cost: Cost) -> Result<Plan, CheckError> {
        let plan = self.registry.find(name)?;
        check_request(slice::from_ref(&plan), Some(cost))?;
        Ok(plan)
    }

    fn plans(&self, names: &[PlanName], cost: Option<Cost>) -> Result<FewPlans, CheckError> {
        let found = names.iter().map(|name| self.registry.find(name));
        let plans = found.collect::<Result<FewPlans, _>>()?;
        check_request(&plans, cost)?;
        Ok(plans)
    }

    /// Decides by `plans`, which were checked.
    async fn decide(&self, key: &Key, plans: FewPlans, cost: Cost) -> Result<Decision, CheckError> {
        // In a block of its own: the answer is large, and not carried along.
        let otherwise = {
            let answer = self.repository.try_acquire(key, &plans, cost).await;
            if let Ok(verdict) = &answer {
                return Ok(self.seen(Decision::from_verdict(plans, verdict)));
            }
            self.answered(answer, key, plans, cost)
        };
        otherwise.await
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

    /// Turns an answer into a decision, by policy where the store gave no verdict. Boxed, so that the calls that get one, nearly
    /// all of them, do not carry its room along.
    #[cold]
    fn answered<'a>(
        &'a self,
        answer: Result<Verdict, StoreError>,
        key: &'a Key,
        plans: FewPlans,
        cost: Cost,
    ) -> Pin<Box<dyn Future<Output = Result<Decision, CheckError>> + Send + 'a>> {
        match answer {
            Ok(verdict) => {
                let decision = self.seen(Decision::from_verdict(plans, &verdict));
                Box::pin(ready(Ok(decision)))
            }
            Err(StoreError::Request(request)) => Box::pin(ready(Err(request.into()))),
            Err(error) => {
                self.tell(|observer| observer.store_failed(&error));
                Box::pin(self.answer_for_store(key, plans, cost))
            }
        }
    }

    async fn answer_for_store(
        &self,
        key: &Key,
        plans: FewPlans,
        cost: Cost,
    ) -> Result<Decision, CheckError> {
        let decision = match &self.policy {
            FailurePolicy::FailOpen => Decision::without_store(Outcome::Allowed, Source::FailOpen),
            FailurePolicy::FailClosed => turned_away(),
            FailurePolicy::Fallback(local) => {
                let shares = local.shares(&plans);
                let verdict = local.try_acquire(key, &shares, cost).await;
                verdict.map_or_else(
                    |_| turned_away(),
                    |verdict| Decision::from_verdict(plans, &verdict),
                )
            }
        };
        Ok(self.seen(decision))
    }

    /// Puts names to a verdict that no policy can answer for, or tells the caller what went wrong.
    fn told(
        &self,
        plans: FewPlans,
        answer: Result<Verdict, StoreError>,
    ) -> Result<Decision, CheckError> {
        let verdict = answer.map_err(|error| self.failed(error))?;
        Ok(Decision::from_verdict(plans, &verdict))
    }

    fn failed(&self, error: StoreError) -> CheckError {
        match error {
            StoreError::Request(request) => CheckError::Request(request),
            error => {
                self.tell(|observer| observer.store_failed(&error));
                CheckError::Store(error)
            }
        }
    }
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
        let plans = self.plans(plans, Some(cost))?;
        self.decide(key, plans, cost).await
    }

    fn check_detached(
        self: Arc<Self>,
        key: Key,
        plans: &[PlanName],
        cost: Cost,
    ) -> Pin<Box<dyn Future<Output = Result<Decision, CheckError>> + Send>> {
        if let [name] = plans {
            return match self.plan(name, cost) {
                Ok(plan) => Box::pin(async move {
                    // In a block of its own: the answer is large, and not carried along.
                    let otherwise = {
                        let asked = slice::from_ref(&plan);
                        let answer = self.repository.try_acquire(&key, asked, cost).await;
                        if let Ok(verdict) = &answer {
                            return Ok(self.seen(Decision::from_verdict_on(plan, verdict)));
                        }
                        self.answered(answer, &key, FewPlans::from_buf([plan]), cost)
                    };
                    otherwise.await
                }),
                Err(error) => Box::pin(ready(Err(error))),
            };
        }
        match self.plans(plans, Some(cost)) {
            Ok(plans) => Box::pin(async move { self.decide(&key, plans, cost).await }),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    async fn peek(
        &self,
        key: &Key,
        plans: &[PlanName],
        cost: Cost,
    ) -> Result<Decision, CheckError> {
        let plans = self.plans(plans, Some(cost))?;
        let answer = self.repository.peek(key, &plans, cost).await;
        self.told(plans, answer)
    }

    async fn refund(
        &self,
        key: &Key,
        plans: &[PlanName],
        cost: Cost,
    ) -> Result<Decision, CheckError> {
        let plans = self.plans(plans, Some(cost))?;
        let answer = self.repository.refund(key, &plans, cost).await;
        self.told(plans, answer)
    }

    async fn reset(&self, key: &Key, plans: &[PlanName]) -> Result<(), CheckError> {
        let plans = self.plans(plans, None)?;
        self.repository
            .reset(key, &plans)
            .await
            .map_err(|error| self.failed(error))
    }
}
