//! [`Observer`]: the outbound port to metrics, traces and logs.

use crate::breaker::BreakerState;
use crate::{AbuseDecision, BlockEvent, Decision, StoreError};

/// Sees every decision once, and what goes wrong on the way to it.
///
/// None of what it is given holds a key: there is nothing here that must not be logged or used as a label. Its methods run
/// on the caller's path and should return at once.
///
/// # Examples
/// ```
/// # use std::sync::{Arc, atomic::{AtomicU64, Ordering::Relaxed}};
/// # use limiter_core::{BreakerState, Cost, Decision, DefaultRateLimiter, InMemoryPlanRegistry, Key, Observer, Plan};
/// # use limiter_core::{PlanName, RateLimiter, StoreError};
/// struct Denials(AtomicU64);
///
/// impl Observer for Denials {
///     fn decided(&self, decision: &Decision) {
///         self.0.fetch_add(u64::from(!decision.is_allowed()), Relaxed);
///     }
///     // and so on
/// #   fn store_failed(&self, _: &StoreError) {}
/// #   fn breaker_changed(&self, _: BreakerState) {}
/// }
/// # let plans = Arc::new(InMemoryPlanRegistry::new([Plan::new("gold", "1/s")?])?);
/// # let limiter = DefaultRateLimiter::new(plans, Arc::new(limiter_testkit::ModelStore::new()));
///
/// let denials = Arc::new(Denials(AtomicU64::new(0)));
/// let limiter = limiter.with_observer(denials.clone());
/// # for _ in 0..3 {
/// #     let (ada, gold) = (Key::new("ada")?, [PlanName::new("gold")?]);
/// #     let _ = limiter_testkit::block_on(limiter.check(&ada, &gold, Cost::ONE))?;
/// # }
/// assert_eq!(denials.0.load(Relaxed), 2); // after three requests under `1/s`
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg_attr(any(test, feature = "mock"), mockall::automock)]
pub trait Observer: Send + Sync {
    /// Sees the decision of one `check`.
    fn decided(&self, decision: &Decision);

    /// Sees each failure of a store: of the shared one, and of the local one that stands in for it. Its class is
    /// [`StoreError::kind`], fit for the label of a metric: `unavailable`, `overloaded`, `full` or `misconfigured`.
    fn store_failed(&self, error: &StoreError);

    /// Sees a circuit breaker change its state.
    fn breaker_changed(&self, state: BreakerState);

    /// Sees the decision on one attempt. Does nothing unless implemented.
    fn attempt_decided(&self, decision: &AbuseDecision) {
        let _ = decision;
    }

    /// Sees a block start or be lifted. Does nothing unless implemented.
    fn block_changed(&self, event: &BlockEvent) {
        let _ = event;
    }
}

/// Sees nothing: the observer of who asked for none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn decided(&self, _: &Decision) {}

    fn store_failed(&self, _: &StoreError) {}

    fn breaker_changed(&self, _: BreakerState) {}
}
