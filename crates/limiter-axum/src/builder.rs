//! [`RateLimitLayerBuilder`]: a layer with other than the usual settings.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use limiter_core::{Challenge, KeyResolver, RateLimiter};

use crate::child_limits::ChildLimits;
use crate::complaints::Complaints;
use crate::rate_limit::{InvalidRateLimit, Keys};
use crate::route_rule::{InvalidRoute, RouteTable};
use crate::settings::{OnRejection, OnUndecided, Settings, Skip};
use crate::{
    AccessList, ClientIp, HeaderStyle, HttpRequest, MissingKey, RateLimit, RateLimitLayer,
    Rejection, RouteRule, Undecided,
};

/// Builds a [`RateLimitLayer`].
///
/// | setting | default |
/// |---|---|
/// | [`limit`](Self::limit), [`routes`](Self::routes) | none: only the extractors charge |
/// | [`headers`](Self::headers) | [`HeaderStyle::Draft11`] |
/// | [`missing_key`](Self::missing_key) | [`MissingKey::BadRequest`] |
/// | [`challenge`](Self::challenge) | what the key resolver asks for, or `Bearer` |
/// | [`access`](Self::access) | nobody is exempt, nobody is denied |
/// | [`client_ip`](Self::client_ip) | the socket's peer |
/// | [`skip_preflight`](Self::skip_preflight), [`skip_path`](Self::skip_path), [`skip_if`](Self::skip_if) | every request counts |
/// | [`on_rejection`](Self::on_rejection) | `application/problem+json` |
/// | [`on_undecided`](Self::on_undecided) | nobody is told of requests that no plan decided |
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use limiter_axum::{ClientIp, HeaderKeyResolver, InvalidLayer, MissingKey, RateLimit, RateLimitLayer, RouteRule};
/// use limiter_core::RateLimiter;
///
/// fn limits(limiter: Arc<dyn RateLimiter>) -> Result<RateLimitLayer, InvalidLayer> {
///     RateLimitLayer::builder(limiter, HeaderKeyResolver::new("x-api-key"))
///         .named_key("ip", ClientIp::peer())
///         .missing_key(MissingKey::Unauthorized)
///         .limit(RateLimit::plans(["gold", "daily"]))
///         .routes([RouteRule::new("/login", RateLimit::plan("login").key("ip"))])
///         .skip_path("/healthz")
///         .build()
/// }
/// ```
#[must_use = "a builder does nothing until it builds"]
pub struct RateLimitLayerBuilder {
    limiter: Arc<dyn RateLimiter>,
    keys: Keys,
    limit: Option<RateLimit>,
    routes: Vec<RouteRule>,
    header_style: HeaderStyle,
    missing_key: MissingKey,
    challenges: Vec<Challenge>,
    access: AccessList,
    client_ip: ClientIp,
    skip: Skip,
    on_rejection: Option<OnRejection>,
    on_undecided: Option<OnUndecided>,
}

impl RateLimitLayerBuilder {
    pub(crate) fn new(limiter: Arc<dyn RateLimiter>, key: impl KeyResolver + 'static) -> Self {
        Self {
            limiter,
            keys: Keys::new(key),
            limit: None,
            routes: Vec::new(),
            header_style: HeaderStyle::default(),
            missing_key: MissingKey::default(),
            challenges: Vec::new(),
            access: AccessList::default(),
            client_ip: ClientIp::peer(),
            skip: Skip::default(),
            on_rejection: None,
            on_undecided: None,
        }
    }

    /// Sets the limit of every request that the table of routes has no row for.
    pub fn limit(mut self, limit: RateLimit) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Adds rows to the table of routes.
    pub fn routes(mut self, rules: impl IntoIterator<Item = RouteRule>) -> Self {
        self.routes.extend(rules);
        self
    }

    /// Adds a key that limits can ask for by its name, or puts it in the place of the one of that name. `"default"` is the layer's
    /// first key, and no name for another. Keys of different kinds that share a plan share its state where they are
    /// the same bytes: give each kind its own plan, or join them with `CompositeKeyResolver::first_of`.
    pub fn named_key(
        mut self,
        name: impl Into<String>,
        resolver: impl KeyResolver + 'static,
    ) -> Self {
        self.keys.put(name.into(), Arc::new(resolver));
        self
    }

    /// Sets in which form responses tell clients how they stand.
    pub fn headers(mut self, style: HeaderStyle) -> Self {
        self.header_style = style;
        self
    }

    /// Sets what becomes of a request that lacks what its limit goes by.
    pub const fn missing_key(mut self, rule: MissingKey) -> Self {
        self.missing_key = rule;
        self
    }

    /// Sets what a 401 asks for in `WWW-Authenticate`, whatever the key resolver asks for. Said
    /// several times, each is asked for.
    ///
    /// # Examples
    /// ```
    /// use limiter_axum::{Challenge, MissingKey, RateLimitLayerBuilder};
    ///
    /// # fn f(builder: RateLimitLayerBuilder) -> Result<RateLimitLayerBuilder, limiter_axum::InvalidChallenge> {
    /// let challenge = Challenge::new("Bearer")?.with_parameter("realm", "orders")?;
    /// let builder = builder.missing_key(MissingKey::Unauthorized).challenge(challenge);
    /// # Ok(builder) }
    /// ```
    pub fn challenge(mut self, challenge: Challenge) -> Self {
        self.challenges.push(challenge);
        self
    }

    /// Sets who is never limited, and who is never let in.
    pub fn access(mut self, list: AccessList) -> Self {
        self.access = list;
        self
    }

    /// Sets whose addresses the access list is about.
    pub fn client_ip(mut self, client_ip: ClientIp) -> Self {
        self.client_ip = client_ip;
        self
    }

    /// Does not look at CORS preflights: `OPTIONS` with `Origin` and `Access-Control-Request-Method`.
    pub const fn skip_preflight(mut self) -> Self {
        self.skip.preflight = true;
        self
    }

    /// Does not look at requests for exactly this path, such as `/healthz`.
    pub fn skip_path(mut self, path: impl Into<String>) -> Self {
        self.skip.paths.push(path.into());
        self
    }

    /// Does not look at requests that `condition` is true of.
    pub fn skip_if(
        mut self,
        condition: impl Fn(&HttpRequest<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.skip.conditions.push(Arc::new(condition));
        self
    }

    /// Answers requests that are turned away with what `answer` makes of them.
    ///
    /// A 401 without `WWW-Authenticate` gets the layer's if there was no key, else `Bearer`.
    /// `Retry-After`, the `RateLimit` fields and `Cache-Control: no-store` are added to it; a
    /// longer `Retry-After` and another `Cache-Control` stay. gRPC requests are answered as gRPC in
    /// any case.
    pub fn on_rejection(
        mut self,
        answer: impl Fn(&Rejection) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.on_rejection = Some(Arc::new(answer));
        self
    }

    /// Tells `tell` of each request that no plan decided: those without a key, on a list, skipped. What is decided, failing open as
    /// well, the limiter's `Observer` sees; both together are every request. It runs on the caller's path and should return at once.
    pub fn on_undecided(mut self, tell: impl Fn(Undecided) + Send + Sync + 'static) -> Self {
        self.on_undecided = Some(Arc::new(tell));
        self
    }

    /// Builds the layer.
    ///
    /// # Errors
    /// [`InvalidLayer`] if a limit, a row of the table of routes or the name of a key is not allowed. Whether plans exist is asked
    /// by [`RateLimitLayer::verify`].
    pub fn build(self) -> Result<RateLimitLayer, InvalidLayer> {
        if self.keys.hide_one() {
            return Err(InvalidLayer::DefaultKey);
        }
        let first_limit = self
            .limit
            .map(|limit| limit.check_to_keep(&self.keys))
            .transpose()?;
        let routes = RouteTable::new(self.routes, &self.keys)?;
        Ok(RateLimitLayer::of(Settings {
            first_limit,
            has_rules: !(routes.is_empty() && self.access.is_empty() && self.skip.is_empty()),
            routes,
            limiter: self.limiter,
            keys: self.keys,
            header_style: self.header_style,
            missing_key: self.missing_key,
            challenges: self.challenges,
            access: self.access,
            client_ip: self.client_ip,
            skip: self.skip,
            on_rejection: self.on_rejection,
            on_undecided: self.on_undecided,
            complaints: Complaints::default(),
            children: ChildLimits::default(),
        }))
    }
}

impl std::fmt::Debug for RateLimitLayerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimitLayerBuilder")
            .field("limit", &self.limit)
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}

/// Says why a layer cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidLayer {
    /// A limit is not allowed.
    #[error(transparent)]
    Limit(#[from] InvalidRateLimit),
    /// A row of the table of routes is not allowed.
    #[error(transparent)]
    Route(#[from] InvalidRoute),
    /// A key was added as `"default"`, which is the layer's first key.
    #[error(
        "a key is called \"default\", as the layer's first one is: give it another name, or make it the first"
    )]
    DefaultKey,
}
