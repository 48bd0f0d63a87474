//! [`RateLimitService`]: a service behind the layer.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use crate::charges::Own;
use crate::entry::{Entry, is_grpc};
use crate::passage::Passage;
use crate::rate_limit::CheckedLimit;
use crate::response_future::{Next, ResponseFuture};
use crate::settings::Settings;
use crate::{HttpRequest, RejectionBody};

/// A service whose requests are limited. Made by [`RateLimitLayer`](crate::RateLimitLayer).
#[derive(Clone)]
pub struct RateLimitService<S> {
    /// First, as it is cloned first: to count one more holder a processor ends all that it has begun to write, which is little then.
    settings: Arc<Settings>,
    only: Option<Arc<CheckedLimit>>,
    inner: S,
}

impl<S> RateLimitService<S> {
    pub(crate) const fn new(
        inner: S,
        settings: Arc<Settings>,
        only: Option<Arc<CheckedLimit>>,
    ) -> Self {
        Self {
            settings,
            only,
            inner,
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

    // Not inlined, so that the future is written where the caller wants it: it is large, with the request in it.
    #[inline(never)]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        let head = HttpRequest::of(&request);
        let grpc = is_grpc(&head);
        match self.settings.enter(&head, self.only.as_ref(), grpc) {
            Entry::Charged(own) => {
                let passage = Passage::new(Arc::clone(&self.settings), false, grpc);
                ResponseFuture::serve(self.inner.call(request), passage, own)
            }
            other => self.call_otherwise(other, request, grpc),
        }
    }
}

impl<S> RateLimitService<S> {
    /// Does what is left if a request is not just let go on: that way stays short without it.
    #[inline(never)]
    fn call_otherwise<B, R>(
        &mut self,
        entry: Entry,
        request: Request<B>,
        grpc: bool,
    ) -> ResponseFuture<S, B>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        R: RejectionBody,
    {
        let (own, exempt) = match entry {
            Entry::Charged(own) => (own, false),
            Entry::Uncharged { exempt } => (Own::Nothing, exempt),
            Entry::Rejected(rejection) => return ResponseFuture::answer(rejection.into_http()),
            Entry::Undecided(question) => {
                // The one that was polled ready is called; its clone may not be ready yet.
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                return ResponseFuture::decide(question, Next { ready, request });
            }
        };
        let passage = Passage::new(Arc::clone(&self.settings), exempt, grpc);
        ResponseFuture::serve(self.inner.call(request), passage, own)
    }
}

impl<S: std::fmt::Debug> std::fmt::Debug for RateLimitService<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimitService")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
