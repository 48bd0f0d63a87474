//! [`Receipt`]: what a handler charged.

use std::sync::Arc;

use limiter_core::{CheckError, Decision, Key, RateLimiter, UnresolvedKey};

use crate::Rejection;
use crate::charge::Charge;
use crate::rate_limit::CheckedLimit;
use crate::scope::Scope;
use crate::settings::Gate;

/// What a handler charged. Dropped, it stays charged; [`refund`](Self::refund) gives it back, also after the response.
///
/// # Examples
/// ```
/// # use axum::{Router, body::{Body, to_bytes}, routing::get};
/// # use tower::ServiceExt;
/// # use limiter_axum::{Key, KeyFn, RateLimitLayer};
/// use limiter_axum::{Limits, RateLimit, Rejection};
///
/// async fn export(limits: Limits) -> Result<String, Rejection> {
///     let receipt = limits.charge(&RateLimit::plan("gold").cost(3)).await?;
///     let left = || receipt.decision().map_or(0, |it| it.plans()[0].remaining);
///     let charged = left();
///     let _ = receipt.refund().await;
///     Ok(format!("{charged}, then {}", left()))
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let plans = limiter_core::InMemoryPlanRegistry::new([limiter_core::Plan::new("gold", "fixed 10/h")?])?;
/// # let store = std::sync::Arc::new(limiter_memory::MemoryStore::new());
/// # let limiter = std::sync::Arc::new(limiter_core::DefaultRateLimiter::new(std::sync::Arc::new(plans), store));
/// # let everybody = KeyFn::new("key", |_| Key::new("everybody").ok());
/// # let limits = RateLimitLayer::builder(limiter, everybody).build()?;
/// # let app = Router::new().route("/", get(export)).layer(limits);
/// let response = app.oneshot(http::Request::new(Body::empty())).await?;
/// assert_eq!(to_bytes(response.into_body(), 99).await?, "7, then 10");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "hold on to it to give the cost back, or drop it aloud with `let _ =`"]
pub struct Receipt {
    limiter: Arc<dyn RateLimiter>,
    /// Shared with the layer, if anything was charged.
    charge: Option<Arc<Charge>>,
}

impl Receipt {
    /// Charges whoever `key` found.
    pub(super) async fn charge(
        scope: &Arc<Scope>,
        key: Result<Key, UnresolvedKey>,
        limit: CheckedLimit,
    ) -> Result<Self, Rejection> {
        let receipt = |charge| Self {
            limiter: Arc::clone(&scope.settings.limiter),
            charge,
        };
        if scope.exempt {
            return Ok(receipt(None));
        }
        let (settings, limit) = (&scope.settings, Arc::new(limit));
        let turned_away = |rejection| settings.turned_away(rejection, scope.grpc);
        let key = match settings.gate_of_key(key, &limit) {
            Gate::Charge(key, _) => key,
            Gate::Pass(what) | Gate::Exempt(what) => {
                settings.tell(what);
                return Ok(receipt(None));
            }
            Gate::Reject(rejection) => return Err(turned_away(rejection)),
        };
        match settings.limiter.check(&key, &limit.plans, limit.cost).await {
            Ok(decision) if decision.is_allowed() => {
                let charge = Arc::new(Charge::new(limit, decision));
                scope.add(Arc::clone(&charge));
                Ok(receipt(Some(charge)))
            }
            Ok(decision) => Err(turned_away(Rejection::by_decision(decision))),
            Err(error) => Err(turned_away(Rejection::by_charge_error(&error))),
        }
    }

    /// Returns how the plans stood after the charge, or after it was given back; nothing if the request is exempt.
    #[must_use]
    pub fn decision(&self) -> Option<Decision> {
        self.charge.as_ref().map(|charge| charge.decision())
    }

    /// Gives the cost back, once: at any time, also after the response. If it is given back before, the response tells the client
    /// of it. There is nothing left to do if it is back already, if another clone of the receipt is just giving it back, or if the
    /// store was away and nothing was charged.
    ///
    /// It goes to the store that charged. What a bucket has refilled since is not given back again, and nothing is once the window
    /// of the charge has passed: [`RateLimiter::refund`].
    ///
    /// # Errors
    /// [`CheckError`] if the store failed. If the cost certainly stayed spent, it can be asked for again, and
    /// [`refund_failures`](crate::RateLimit::refund_failures) does so; if the store may have given it back, it is not asked twice.
    ///
    /// # Cancel safety
    /// A dropped call may have given the cost back, once. The call is kept: it goes on when the cost is asked for again, here or
    /// because the request failed.
    pub async fn refund(&self) -> Result<(), CheckError> {
        match &self.charge {
            Some(charge) => charge.give_back(&self.limiter).await,
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for Receipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receipt")
            .field("decision", &self.decision())
            .finish_non_exhaustive()
    }
}
