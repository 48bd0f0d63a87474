//! [`RateLimitService`]: a service behind the layer.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use crate::RejectionBody;
use crate::entry::Entry;
use crate::rate_limit::CheckedLimit;
use crate::response_future::{Next, ResponseFuture};
use crate::settings::Settings;

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
        let (parts, body) = request.into_parts();
        match self.settings.enter(&parts, self.only.as_ref()) {
            Entry::Admitted(passage, own) => {
                let response = self.inner.call(Request::from_parts(parts, body));
                ResponseFuture::serve(response, passage, own)
            }
            Entry::Rejected(rejection) => ResponseFuture::answer(rejection.into_http()),
            Entry::Undecided(check, asked) => {
                // The one that was polled ready is called; its clone may not be ready yet.
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                let request = Request::from_parts(parts, body);
                let next = Next {
                    asked,
                    ready,
                    request,
                };
                ResponseFuture::decide(check, next)
            }
        }
    }
}

impl<S: std::fmt::Debug> std::fmt::Debug for RateLimitService<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimitService")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
