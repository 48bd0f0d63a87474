//! [`RateLimitLayer`]: the layer that people put on their router.

use std::fmt;
use std::sync::Arc;

use limiter_core::{CheckError, KeyResolver, RateLimiter};
use tower_layer::Layer;

use crate::rate_limit::{CheckedLimit, InvalidRateLimit};
use crate::settings::Settings;
use crate::{InvalidLayer, RateLimit, RateLimitLayerBuilder, RateLimitService};

/// Limits the requests of an axum router, or of any tower service.
///
/// A request that may go on is passed to the inner service. Its response tells how the caller
/// stands, if an enforced plan decided and it is no redirection. A request that may not go on is
/// answered here; the inner service is not called, and no body is read. The error type is the inner
/// service's own, so nothing has to be handled. All clones share one state.
///
/// # Where to put it
/// - `Router::layer`: all requests, those that match no route as well. Right against scanners.
/// - `Router::route_layer` and `MethodRouter::route_layer`: requests that match a route.
/// - Several layers on one route all apply, from the outside in; their response fields add up.
/// - CORS goes outside, authentication outside of what limits by principal.
///
/// # Cancel safety
/// A caller that goes away while its request is being decided may have been charged, once.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use axum::{Router, routing::get};
/// use limiter_axum::{ClientIp, RateLimit, RateLimitLayer};
/// use limiter_core::RateLimiter;
///
/// fn app(limiter: Arc<dyn RateLimiter>) -> Result<Router, limiter_axum::InvalidLayer> {
///     let limits = RateLimitLayer::builder(limiter, ClientIp::peer()).limit(RateLimit::plan("gold")).build()?;
///     let search = limits.for_route(&RateLimit::plan("search").cost(5))?;
///     Ok(Router::new()
///         .route("/", get(|| async { "hello" }).route_layer(limits))
///         .route("/search", get(|| async { "found" }).route_layer(search)))
/// }
/// ```
#[derive(Clone)]
pub struct RateLimitLayer {
    settings: Arc<Settings>,
    only: Option<Arc<CheckedLimit>>,
}

impl RateLimitLayer {
    /// Limits by one plan, or several, whoever `key` finds.
    ///
    /// # Errors
    /// [`InvalidLayer`] if `limit` is not allowed.
    pub fn new(
        limiter: Arc<dyn RateLimiter>,
        key: impl KeyResolver + 'static,
        limit: RateLimit,
    ) -> Result<Self, InvalidLayer> {
        Self::builder(limiter, key).limit(limit).build()
    }

    /// Starts a layer with other than the usual settings.
    pub fn builder(
        limiter: Arc<dyn RateLimiter>,
        key: impl KeyResolver + 'static,
    ) -> RateLimitLayerBuilder {
        RateLimitLayerBuilder::new(limiter, key)
    }

    pub(crate) fn of(settings: Settings) -> Self {
        Self {
            settings: Arc::new(settings),
            only: None,
        }
    }

    /// Returns a layer that is like this one and shares its state, and applies `limit` in place of the table of routes.
    ///
    /// # Errors
    /// [`InvalidRateLimit`] if `limit` is not allowed.
    pub fn for_route(&self, limit: &RateLimit) -> Result<Self, InvalidRateLimit> {
        let limit = limit.check_to_keep(&self.settings.keys)?;
        self.settings.children.add(&limit);
        Ok(Self {
            settings: Arc::clone(&self.settings),
            only: Some(limit),
        })
    }

    /// Asks the limiter, and it the store, for each limit of this layer, as
    /// [`limiter_core::verify`] does: finds unknown plans, costs that a plan can never admit, and a
    /// store that is set up wrongly, when the service starts and not at the first request. A store
    /// that is away is no mistake of the layer; the limiter logs that.
    ///
    /// The limits are those of the layer, of its table of routes, and of all layers and services
    /// that [`for_route`](Self::for_route) made of it, of its clones and of each other, as long as
    /// they exist: make the router first, and verify then. What handlers charge by themselves is
    /// not known to the layer.
    ///
    /// # Errors
    /// [`CheckError`] for the first limit that can never be applied; [`CheckError::Store`], with the cause, for a store that does not
    /// know the password, grants too little or holds what this version does not understand.
    ///
    /// # Cancel safety
    /// A dropped call may leave what nobody has spent, until it expires.
    pub async fn verify(&self) -> Result<(), CheckError> {
        for limit in self.settings.limits() {
            let limiter = self.settings.limiter.as_ref();
            limiter_core::verify(limiter, &limit.plans, limit.cost).await?;
        }
        Ok(())
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimitService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimitService::new(inner, Arc::clone(&self.settings), self.only.clone())
    }
}

impl fmt::Debug for RateLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer")
            .field("header_style", &self.settings.header_style)
            .field("missing_key", &self.settings.missing_key)
            .finish_non_exhaustive()
    }
}
