//! [`Decision`]: the answer to one request.

use std::fmt;
use std::time::Duration;

use crate::chain::{Chain, Standings};
use crate::math::Suppression;
use crate::receipt::Unclaimed;
use crate::{
    Cost, Enforcement, Key, Plan, PlanName, PlanVerdict, Receipt, Source, StoreError, Timestamp,
    Verdict,
};

/// The answer to one request: allowed or denied, who decided and why, and how each plan stands.
///
/// A decision that charged has a [`Receipt`]; a clone of it says the same and has none.
///
/// It prints as one line for a log, without the key. Where the plan that the wait is for is not one
/// that denied, both are named: `denied by gold, retry after 9s for daily`.
///
/// # Examples
/// ```
/// # use std::sync::Arc;
/// # use limiter_core::{Cost, DefaultRateLimiter, InMemoryPlanRegistry, Key, Plan, PlanName, RateLimiter, Reason, Source};
/// # use limiter_testkit::{ModelStore, block_on};
/// # let plans = Arc::new(InMemoryPlanRegistry::new([Plan::new("gold", "1/s burst 2")?])?);
/// # let limiter = DefaultRateLimiter::new(plans, Arc::new(ModelStore::new()));
/// # let (ada, gold) = (Key::new("ada")?, [PlanName::new("gold")?]);
/// let decision = block_on(limiter.check(&ada, &gold, Cost::new(2)?))?;
/// assert!(decision.is_allowed());
/// assert_eq!((decision.source(), decision.reason()), (Source::Store, Reason::WithinLimits));
///
/// let denied = block_on(limiter.check(&ada, &gold, Cost::ONE))?;
/// assert_eq!(denied.retry_after().map(|wait| wait.as_secs()), Some(1));
/// assert_eq!(denied.to_string(), "denied by gold, retry after 1s (store, limit_exceeded); gold: 0 of 2 left");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an unread decision limits nobody"]
pub struct Decision {
    outcome: Outcome,
    source: Source,
    reason: Reason,
    plans: Standings,
    unclaimed: Unclaimed,
}

/// Allowed or denied.
///
/// # Examples
/// ```
/// use limiter_core::{Decision, Outcome};
///
/// fn status(decision: &Decision) -> u16 {
///     match decision.outcome() {
///         Outcome::Allowed => 200,
///         Outcome::Denied(_) => 429,
///         Outcome::Unavailable => 503,
///     }
/// }
/// # use limiter_core::*;
/// # let plans = std::sync::Arc::new(InMemoryPlanRegistry::new([Plan::new("gold", "1/s")?])?);
/// # let limiter = DefaultRateLimiter::new(plans, std::sync::Arc::new(limiter_testkit::ModelStore::new()));
/// # let (ada, gold) = (Key::new("ada")?, [PlanName::new("gold")?]);
/// # let check = || limiter_testkit::block_on(limiter.check(&ada, &gold, Cost::ONE));
/// assert_eq!([status(&check()?), status(&check()?)], [200, 429]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The request may go on.
    Allowed,
    /// The request is turned away by a plan.
    Denied(Denial),
    /// The request is turned away because the store failed and the policy is to fail closed.
    Unavailable,
}

/// Which plan denied, and when to come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The plan that the wait is for: the one that takes longest to admit this request for certain. That may be a suppressing
    /// window that let this one pass, by luck, while another plan denied it.
    pub plan: PlanName,
    /// Wait exactly this long and, if nobody else spends, this same request is admitted by all plans.
    pub retry_after: Duration,
    /// Units of that plan that will be free after the wait.
    pub free_after_wait: u32,
}

/// Why a decision is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Every plan had room.
    WithinLimits,
    /// A plan had no room.
    LimitExceeded,
    /// No plan that is enforced was without room, but a suppressing window drew lots between its soft and its hard limit.
    Suppressed,
    /// The store failed; the failure policy answered.
    StoreFailed,
}

impl Reason {
    /// Returns the name used in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WithinLimits => "within_limits",
            Self::LimitExceeded => "limit_exceeded",
            Self::Suppressed => "suppressed",
            Self::StoreFailed => "store_failed",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How one plan stands after a decision.
///
/// # Examples
/// ```
/// # use std::sync::Arc;
/// # use limiter_core::{Cost, DefaultRateLimiter, Enforcement, InMemoryPlanRegistry, Key, Plan, PlanName, RateLimiter};
/// # use limiter_testkit::{ModelStore, block_on};
/// let plans = [Plan::new("gold", "10/s")?, Plan::new("trial", "fixed 2/min")?.in_shadow()];
/// # let names = plans.clone().map(|plan| plan.name().clone());
/// # let limiter = DefaultRateLimiter::new(Arc::new(InMemoryPlanRegistry::new(plans)?), Arc::new(ModelStore::new()));
/// let decision = block_on(limiter.check(&Key::new("ada")?, &names, Cost::new(2)?))?;
/// let [gold, trial] = decision.plans() else { unreachable!("one for each plan, in order") };
/// assert_eq!((gold.plan.limit().units(), gold.remaining), (10, 8));
/// assert_eq!(gold.reset_after.as_millis(), 200);
/// assert_eq!((trial.plan.enforcement(), trial.remaining), (Enforcement::Shadow, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanDecision {
    /// The plan. Under a fallback this node grants its share of the plan's limit, and `remaining` is what is left of that share.
    pub plan: Plan,
    /// Whether the plan admitted the request, or would have.
    pub admits: bool,
    /// The store's moment at which this plan was charged; `None` if it was not.
    pub charged_at: Option<Timestamp>,
    /// Units that are free now.
    pub remaining: u32,
    /// How long until the plan is as good as unused.
    pub reset_after: Duration,
    /// How long until this plan admits this same request; zero if it does.
    pub retry_after: Duration,
    /// The share of requests that a suppressing window is refusing.
    pub suppression: Suppression,
    /// The plan had changed its algorithm, and starts afresh.
    pub restarted: bool,
}

impl Decision {
    /// Puts names and reasons to a verdict on `chain`.
    #[inline]
    pub(crate) fn from_verdict(chain: impl Chain, verdict: &Verdict) -> Self {
        if !verdict.admitted {
            return Self::denied(chain, verdict);
        }
        Self {
            outcome: Outcome::Allowed,
            source: verdict.source,
            reason: Reason::WithinLimits,
            plans: chain.told(&verdict.plans),
            unclaimed: Unclaimed::NONE,
        }
    }

    /// Has the receipt made out to `key`, if anything was charged.
    #[inline]
    pub(crate) fn charged_to(mut self, key: &Key, cost: Cost, by_policy: bool) -> Self {
        if self.is_allowed() {
            self.unclaimed = Unclaimed::new(key, cost, by_policy);
        }
        self
    }

    #[cold]
    fn denied(chain: impl Chain, verdict: &Verdict) -> Self {
        if verdict.source == Source::FailClosed {
            return Self::without_store(Outcome::Unavailable, Source::FailClosed);
        }
        let reason = reason_of_denial(chain.plans(), verdict);
        Self {
            outcome: denial(chain.plans(), verdict),
            source: verdict.source,
            reason,
            plans: chain.told(&verdict.plans),
            unclaimed: Unclaimed::NONE,
        }
    }

    /// Makes the decision that stands in for a store's; nothing is known of the plans.
    pub(crate) fn without_store(outcome: Outcome, source: Source) -> Self {
        Self {
            outcome,
            source,
            reason: Reason::StoreFailed,
            plans: Standings::new(),
            unclaimed: Unclaimed::NONE,
        }
    }

    /// Returns whether the request may go on.
    #[must_use]
    #[inline]
    pub const fn is_allowed(&self) -> bool {
        matches!(self.outcome, Outcome::Allowed)
    }

    /// Returns allowed, denied or unavailable.
    #[must_use]
    pub const fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Returns which plan denied, and when to come back, if one did.
    #[must_use]
    pub const fn denial(&self) -> Option<&Denial> {
        if let Outcome::Denied(denial) = &self.outcome {
            Some(denial)
        } else {
            None
        }
    }

    /// Returns how long to wait, if a plan denied.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.denial().map(|denial| denial.retry_after)
    }

    /// Returns who decided.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// Returns why.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns how each plan stands, in the order in which they were asked for; empty if the store failed and nothing
    /// stood in for it.
    #[must_use]
    #[inline]
    pub fn plans(&self) -> &[PlanDecision] {
        &self.plans
    }

    /// Takes the receipt of what was charged, which [`RateLimiter::refund`](crate::RateLimiter::refund) wants. A charge has one
    /// receipt: it cannot be taken twice, and a clone of the decision has none.
    ///
    /// `None` if nothing was charged: the request was denied, the failure policy let it pass, or nobody asked for it to be
    /// spent.
    #[must_use = "dropped, the charge can no longer be given back"]
    pub fn take_receipt(&mut self) -> Option<Receipt> {
        self.unclaimed.take(self.source, &self.plans)
    }
}

impl Decision {
    /// Writes which plan denied, and which one the wait is for if that is another.
    fn write_denial(&self, f: &mut fmt::Formatter<'_>, denial: &Denial) -> fmt::Result {
        let denied = |it: &&PlanDecision| it.plan.is_enforced() && !it.admits;
        let mut denying = self.plans.iter().filter(denied).map(|it| it.plan.name());
        let (awaited, wait) = (&denial.plan, denial.retry_after);
        match denying.next() {
            Some(first) if first != awaited && !denying.any(|other| other == awaited) => {
                write!(f, "denied by {first}, retry after {wait:?} for {awaited}")
            }
            _ => write!(f, "denied by {awaited}, retry after {wait:?}"),
        }
    }
}

impl PlanDecision {
    #[inline]
    pub(crate) fn new(plan: Plan, verdict: &PlanVerdict) -> Self {
        Self {
            plan,
            admits: verdict.admits,
            charged_at: verdict.charged_at,
            remaining: verdict.remaining,
            reset_after: verdict.reset_after,
            retry_after: verdict.retry_after,
            suppression: verdict.suppression,
            restarted: verdict.restarted,
        }
    }
}

fn is_partial(suppression: Suppression) -> bool {
    suppression != Suppression::NONE && suppression != Suppression::ALL
}

/// Says whether all that stood in the way was bad luck. Shadow plans stand in nobody's way.
fn reason_of_denial(plans: &[Plan], verdict: &Verdict) -> Reason {
    let mut denying = enforced(plans, verdict).filter(|(_, answer)| !answer.admits);
    if denying.all(|(_, answer)| is_partial(answer.suppression)) {
        Reason::Suppressed
    } else {
        Reason::LimitExceeded
    }
}

fn enforced<'a>(
    plans: &'a [Plan],
    verdict: &'a Verdict,
) -> impl Iterator<Item = (&'a Plan, &'a PlanVerdict)> {
    let all = plans.iter().zip(&verdict.plans);
    all.filter(|(plan, _)| plan.is_enforced())
}

/// Names the enforced plan that the wait is for. Of those that take equally long it is the first, rather one that denied.
fn denial(plans: &[Plan], verdict: &Verdict) -> Outcome {
    let weight = |answer: &PlanVerdict| (answer.retry_after, !answer.admits);
    let longest =
        enforced(plans, verdict).reduce(|a, b| if weight(b.1) > weight(a.1) { b } else { a });
    longest.map_or(Outcome::Unavailable, |(plan, answer)| {
        Outcome::Denied(Denial {
            plan: plan.name().clone(),
            retry_after: verdict.retry_after,
            free_after_wait: answer.free_after_wait,
        })
    })
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Allowed => f.write_str("allowed")?,
            Outcome::Denied(denial) => self.write_denial(f, denial)?,
            Outcome::Unavailable => f.write_str("turned away")?,
        }
        write!(f, " ({}, {})", self.source, self.reason)?;
        self.plans.iter().try_for_each(|standing| {
            let PlanDecision {
                plan, remaining, ..
            } = standing;
            let (name, units) = (plan.name(), plan.limit().units());
            write!(f, "; {name}: {remaining} of {units} left")?;
            match plan.enforcement() {
                Enforcement::Shadow if !standing.admits => f.write_str(" (shadow, would deny)"),
                Enforcement::Shadow => f.write_str(" (shadow)"),
                Enforcement::Enforced => Ok(()),
            }
        })
    }
}

/// Says why a call to a [`RateLimiter`](crate::RateLimiter) got no decision.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// A plan is not registered.
    #[error(transparent)]
    UnknownPlan(#[from] crate::UnknownPlan),
    /// The call can never be answered.
    #[error(transparent)]
    Request(#[from] crate::InvalidRequest),
    /// The store failed where no policy answers for it: on `peek`, `refund` and `reset`, and on `check` if it is misconfigured.
    #[error("store failed")]
    Store(#[source] StoreError),
}
