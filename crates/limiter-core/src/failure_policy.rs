//! [`FailurePolicy`]: what to do with a request when the store fails.

use crate::LocalStore;
#[cfg(doc)]
use crate::{DefaultRateLimiter, Source, StoreError};

/// What to do with a request when the store gives no verdict.
///
/// | the store is | what is done |
/// |---|---|
/// | away or overloaded | what the policy says |
/// | [full](StoreError::Full), and the key is new | what the policy says, or [`DefaultRateLimiter::denying_when_full`] |
/// | [misconfigured](StoreError::Misconfigured) | the caller gets an error, or [`DefaultRateLimiter::tolerating_misconfiguration`] |
///
/// # Examples
/// ```
/// # use std::sync::Arc;
/// # use limiter_core::{BreakerMode, CircuitBreaker, Cost, DefaultRateLimiter, FailurePolicy, InMemoryPlanRegistry, Key};
/// # use limiter_core::{LocalStore, Plan, PlanName, RateLimiter, Share, Source};
/// # use limiter_testkit::{ManualClock, ManualRandom, ModelStore, block_on};
/// # let (clock, random) = (Arc::new(ManualClock::new()), Arc::new(ManualRandom::default()));
/// # let store = CircuitBreaker::new(Arc::new(ModelStore::new()), clock, random);
/// store.set_mode(BreakerMode::ForcedOpen); // as if the store were down
/// let plans = Arc::new(InMemoryPlanRegistry::new([Plan::new("gold", "10/s")?])?);
/// let local = LocalStore::new(Arc::new(ModelStore::new()), Share::of_nodes(5)?);
/// let limiter = DefaultRateLimiter::new(plans, Arc::new(store))
///     .with_failure_policy(FailurePolicy::Fallback(local));
///
/// let decision = block_on(limiter.check(&Key::new("ada")?, &[PlanName::new("gold")?], Cost::ONE))?;
/// assert!(decision.is_allowed());
/// assert_eq!(decision.source(), Source::Fallback);
/// assert_eq!(decision.plans()[0].remaining, 1); // of this node's fifth
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum FailurePolicy {
    /// Let it pass, unlimited; the decision says [`Source::FailOpen`].
    #[default]
    FailOpen,
    /// Turn it away; the decision says [`Source::FailClosed`].
    FailClosed,
    /// Ask a local store that grants this node's share of each limit; the decision says
    /// [`Source::Fallback`]. A request that costs more than the share is denied. What the local
    /// store cannot answer either is turned away.
    Fallback(LocalStore),
}

impl FailurePolicy {
    /// Says what becomes of requests, for the log.
    pub(crate) const fn consequence(&self) -> &'static str {
        match self {
            Self::FailOpen => "requests that need it pass unlimited (fail_open)",
            Self::FailClosed => "requests that need it are turned away (fail_closed)",
            Self::Fallback(_) => {
                "requests that need it are limited to this node's share by the local store (fallback)"
            }
        }
    }
}
