//! [`RateLimitService`]: a service behind the layer.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::request::Parts;
use http::{Request, Response};
use tower_service::Service;

use crate::rate_limit::CheckedLimit;
use crate::response_future::{Check, ResponseFuture};
use crate::scope::{Asked, Scope};
use crate::settings::{Gate, Settings};
use crate::{Rejection, RejectionBody};

/// A service whose requests are limited. Made by [`RateLimitLayer`](crate::RateLimitLayer).
#[derive(Clone)]
pub struct RateLimitService<S> {
    inner: S,
    settings: Arc<Settings>,
    only: Option<Arc<CheckedLimit>>,
}

impl<S> RateLimitService<S> {
    pub(crate) const fn new(
        inner: S,
        settings: Arc<Settings>,
        only: Option<Arc<CheckedLimit>>,
    ) -> Self {
        Self {
            inner,
            settings,
            only,
        }
    }

    fn scope(&self, asked: Option<Asked>, exempt: bool, grpc: bool) -> Arc<Scope> {
        let settings = Arc::clone(&self.settings);
        Arc::new(Scope::new(settings, asked, exempt, grpc))
    }
}

impl<S, B, R> Service<Request<B>> for RateLimitService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: RejectionBody,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let grpc = is_grpc(&parts);
        match self.settings.gate(&parts, self.only.as_ref()) {
            Gate::Reject(rejection) => self.turn_away(rejection, grpc),
            gate @ (Gate::Pass | Gate::Exempt) => {
                let scope = self.scope(None, matches!(gate, Gate::Exempt), grpc);
                show(&scope, &mut parts);
                let request = Request::from_parts(parts, body);
                ResponseFuture::serve(self.inner.call(request), scope)
            }
            Gate::Charge(key, limit) => {
                let scope = self.scope(Some(Asked { key, limit }), false, grpc);
                show(&scope, &mut parts);
                self.charge(scope, Request::from_parts(parts, body))
            }
        }
    }
}

impl<S> RateLimitService<S> {
    /// Asks at once: a store in memory answers, and the inner service is called without a clone and without a detour. One that
    /// has to wait is asked again by the response future, which tells it whom to wake.
    fn charge<B, R>(&mut self, scope: Arc<Scope>, request: Request<B>) -> ResponseFuture<S, B>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        R: RejectionBody,
    {
        let mut check = Check::new(Arc::clone(&scope));
        match check.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => ResponseFuture::serve(self.inner.call(request), scope),
            Poll::Ready(Err(rejection)) => ResponseFuture::answer(rejection.into_http()),
            Poll::Pending => {
                // The one that was polled ready is called; its clone may not be ready yet.
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                ResponseFuture::decide(check, scope, ready, request)
            }
        }
    }

    #[cold]
    fn turn_away<B, R>(&self, rejection: Rejection, grpc: bool) -> ResponseFuture<S, B>
    where
        S: Service<Request<B>, Response = Response<R>>,
        R: RejectionBody,
    {
        self.settings.complain(&rejection);
        let rejection = rejection.answered_by(&self.settings, grpc);
        ResponseFuture::answer(rejection.into_http())
    }
}

/// Lets extractors find the scope of the request.
#[cfg(feature = "axum")]
fn show(scope: &Arc<Scope>, parts: &mut Parts) {
    parts.extensions.insert(Arc::clone(scope));
}

#[cfg(not(feature = "axum"))]
fn show(_: &Arc<Scope>, _: &mut Parts) {}

#[cfg(feature = "tonic")]
pub(crate) fn is_grpc(parts: &Parts) -> bool {
    crate::rejection::is_grpc(&parts.headers)
}

#[cfg(not(feature = "tonic"))]
pub(crate) const fn is_grpc(_: &Parts) -> bool {
    false
}

impl<S: std::fmt::Debug> std::fmt::Debug for RateLimitService<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimitService")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
