//! [`AbuseLayer`]: the abuse limiter on a route.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, response};
use limiter_core::{AbuseGuard, Challenge, KeyResolver};
use tower_layer::Layer;

use super::settings::AbuseSettings;
use super::{AbuseService, AttemptOutcome, Counting};
use crate::settings::Skip;
use crate::{HttpRequest, MissingKey, Rejection, Undecided};

/// Counts attempts on a route, turns away who made too many, and forgives who gets it right.
///
/// A request that meets a block gets 429 with `Retry-After` and a problem body, in which `context.retryAfter` has the wait as
/// well; the handler does not run. What the response's status says of an attempt, [`AttemptOutcome::of_response`] tells; the
/// handler knows better, and says so with [`Attempt`](crate::Attempt). All clones share one state.
///
/// | case | [`Counting::Attempts`] (default) | [`Counting::Failures`], and `GET` and the like |
/// |---|---|---|
/// | a request comes | counted, before the handler runs | not counted, unless it meets a block |
/// | it failed | - | counted |
/// | it succeeded | earlier attempts are forgiven | the same, if the handler or your own judge says so |
/// | neither, or an error of the inner service | stays counted | not counted |
/// | the handler panics | stays counted | not counted, unless it had said `failed` |
/// | the caller hangs up | stays counted; forgiven if the handler had said `succeeded` | counted, unless it had said otherwise or was a `GET` or the like |
/// | several layers with one policy and one key | counted once | counted once |
/// | the store is away | as the guard's failure policy says: a local store, 503, or let pass | the same |
///
/// What becomes of a caller that hangs up is done by a task on tokio, and needs the feature `axum`. Put a layer that gives up on
/// slow handlers inside of this one: outside of it, it cannot be told from a caller that hangs up.
///
/// # Cancel safety
/// A caller that goes away while its attempt is being counted may have been counted, once.
///
/// # Examples
/// ```
/// use axum::{Router, http::StatusCode, routing::post};
/// use limiter_axum::{AbuseLayer, ClientIp};
/// use limiter_core::AbuseGuard;
///
/// async fn sign_in(password: String) -> StatusCode {
///     if password == "hunter2" { StatusCode::OK } else { StatusCode::UNAUTHORIZED }
/// }
///
/// fn app(guard: AbuseGuard) -> Router {
///     Router::new().route("/login", post(sign_in).route_layer(AbuseLayer::new(guard, ClientIp::peer())))
/// }
/// ```
#[derive(Clone)]
pub struct AbuseLayer {
    settings: Arc<AbuseSettings>,
}

impl AbuseLayer {
    /// Counts the attempts of whoever `key` finds.
    #[must_use]
    pub fn new(guard: AbuseGuard, key: impl KeyResolver + 'static) -> Self {
        Self::builder(guard).key(key).build()
    }

    /// Starts a layer with other than the usual settings.
    pub fn builder(guard: AbuseGuard) -> AbuseLayerBuilder {
        AbuseLayerBuilder {
            settings: AbuseSettings {
                guard: Arc::new(guard),
                key: None,
                counting: Counting::default(),
                forgives: true,
                judge: None,
                missing_key: MissingKey::default(),
                challenges: Vec::new(),
                skip: Skip::default(),
                on_rejection: None,
                on_undecided: None,
                complaints: crate::complaints::Complaints::default(),
            },
        }
    }
}

impl<S> Layer<S> for AbuseLayer {
    type Service = AbuseService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        AbuseService::new(inner, Arc::clone(&self.settings))
    }
}

impl fmt::Debug for AbuseLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbuseLayer")
            .field("policy", self.settings.guard.policy().name())
            .field("counting", &self.settings.counting)
            .finish_non_exhaustive()
    }
}

/// Builds an [`AbuseLayer`].
///
/// | setting | default |
/// |---|---|
/// | [`key`](Self::key) | none: only the keys that the handler names |
/// | [`counting`](Self::counting) | [`Counting::Attempts`] |
/// | [`judge`](Self::judge) | [`AttemptOutcome::of_response`] |
/// | [`never_forgive`](Self::never_forgive) | a success forgives |
/// | [`missing_key`](Self::missing_key) | [`MissingKey::BadRequest`] |
/// | [`challenge`](Self::challenge) | what the key resolver asks for, or `Bearer` |
/// | [`skip_preflight`](Self::skip_preflight), [`skip_if`](Self::skip_if) | every request is an attempt |
/// | [`on_rejection`](Self::on_rejection) | `application/problem+json` |
/// | [`on_undecided`](Self::on_undecided) | nobody is told of requests that no policy decided |
///
/// # Examples
/// ```
/// use http::StatusCode;
/// use limiter_axum::{AbuseLayer, AttemptOutcome, ClientIp, Counting};
/// use limiter_core::AbuseGuard;
///
/// fn against_scanners(guard: AbuseGuard) -> AbuseLayer {
///     AbuseLayer::builder(guard)
///         .key(ClientIp::peer())
///         .counting(Counting::Failures)
///         .judge(|response| match response.status {
///             StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED => AttemptOutcome::Failed,
///             _ => AttemptOutcome::Undecided,
///         })
///         .build()
/// }
/// ```
#[must_use = "a builder does nothing until it builds"]
pub struct AbuseLayerBuilder {
    settings: AbuseSettings,
}

impl AbuseLayerBuilder {
    /// Sets whose attempts the requests are. Without it only those count that the handler names with
    /// [`Attempt::by`](crate::Attempt::by).
    pub fn key(mut self, resolver: impl KeyResolver + 'static) -> Self {
        self.settings.key = Some(Arc::new(resolver));
        self
    }

    /// Sets what counts as an attempt, and when.
    pub const fn counting(mut self, counting: Counting) -> Self {
        self.settings.counting = counting;
        self
    }

    /// Sets how the head of a response tells how an attempt ended, where the handler says nothing. It is believed for every
    /// request, a `GET` too.
    pub fn judge(
        mut self,
        judge: impl Fn(&response::Parts) -> AttemptOutcome + Send + Sync + 'static,
    ) -> Self {
        self.settings.judge = Some(Arc::new(judge));
        self
    }

    /// Lets no success forgive: attempts leave their windows by time alone. Right where one caller can succeed and fail in turn,
    /// as with an account of its own among those it guesses.
    pub const fn never_forgive(mut self) -> Self {
        self.settings.forgives = false;
        self
    }

    /// Sets what becomes of a request that lacks what the key is made of.
    pub const fn missing_key(mut self, rule: MissingKey) -> Self {
        self.settings.missing_key = rule;
        self
    }

    /// Sets what a 401 of this layer asks for in `WWW-Authenticate`, whatever the key resolver asks
    /// for. Said several times, each is asked for.
    pub fn challenge(mut self, challenge: Challenge) -> Self {
        self.settings.challenges.push(challenge);
        self
    }

    /// Does not look at CORS preflights: `OPTIONS` with `Origin` and `Access-Control-Request-Method`.
    pub const fn skip_preflight(mut self) -> Self {
        self.settings.skip.preflight = true;
        self
    }

    /// Does not look at requests that `condition` is true of.
    pub fn skip_if(
        mut self,
        condition: impl Fn(&HttpRequest<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.settings.skip.conditions.push(Arc::new(condition));
        self
    }

    /// Answers requests that are turned away with what `answer` makes of them.
    ///
    /// A 401 without `WWW-Authenticate` gets the layer's if there was no key, else `Bearer`.
    /// `Retry-After` and `Cache-Control: no-store` are added to it; a longer `Retry-After` and
    /// another `Cache-Control` stay. gRPC requests are answered as gRPC in any case.
    pub fn on_rejection(
        mut self,
        answer: impl Fn(&Rejection) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.settings.on_rejection = Some(Arc::new(answer));
        self
    }

    /// Tells `tell` of each request that no policy decided: those without a key, and those that are skipped. What is counted or meets
    /// a block, the limiter's `Observer` sees. It runs on the caller's path and should return at once.
    ///
    /// # Examples
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use limiter_axum::{AbuseLayer, ClientIp, Undecided};
    /// use limiter_core::AbuseGuard;
    ///
    /// static WITHOUT_ADDRESS: AtomicU64 = AtomicU64::new(0);
    ///
    /// fn counted(guard: AbuseGuard) -> AbuseLayer {
    ///     let layer = AbuseLayer::builder(guard).key(ClientIp::peer());
    ///     let layer = layer.on_undecided(|what| {
    ///         if what == Undecided::NoKey {
    ///             WITHOUT_ADDRESS.fetch_add(1, Ordering::Relaxed);
    ///         }
    ///     });
    ///     layer.build()
    /// }
    /// ```
    pub fn on_undecided(mut self, tell: impl Fn(Undecided) + Send + Sync + 'static) -> Self {
        self.settings.on_undecided = Some(Arc::new(tell));
        self
    }

    /// Builds the layer.
    #[must_use]
    pub fn build(self) -> AbuseLayer {
        AbuseLayer {
            settings: Arc::new(self.settings),
        }
    }
}

impl fmt::Debug for AbuseLayerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbuseLayerBuilder")
            .field("policy", self.settings.guard.policy().name())
            .finish_non_exhaustive()
    }
}
