//! [`AbuseFuture`]: an attempt on its way through the layer.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;

/// An attempt on its way: let in, served and settled, or turned away.
#[must_use = "futures do nothing unless polled"]
pub struct AbuseFuture<R, E>(Boxed<R, E>);

type Boxed<R, E> = Pin<Box<dyn Future<Output = Result<Response<R>, E>> + Send>>;

impl<R, E> AbuseFuture<R, E> {
    pub(super) fn new(
        future: impl Future<Output = Result<Response<R>, E>> + Send + 'static,
    ) -> Self {
        Self(Box::pin(future))
    }
}

impl<R, E> Future for AbuseFuture<R, E> {
    type Output = Result<Response<R>, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl<R, E> std::fmt::Debug for AbuseFuture<R, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AbuseFuture").finish_non_exhaustive()
    }
}
