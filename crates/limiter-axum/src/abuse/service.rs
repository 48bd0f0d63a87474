//! [`AbuseService`]: a service behind an abuse layer.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::ledger::Ledger;
use super::settings::{AbuseSettings, Whose};
use super::{AbuseFuture, Attempt, AttemptOutcome};
use crate::entry::is_grpc;
use crate::{HttpRequest, Rejection, RejectionBody, Undecided};

/// A service whose requests are attempts. Made by [`AbuseLayer`](crate::AbuseLayer).
#[derive(Clone)]
pub struct AbuseService<S> {
    inner: S,
    settings: Arc<AbuseSettings>,
}

impl<S> AbuseService<S> {
    pub(super) const fn new(inner: S, settings: Arc<AbuseSettings>) -> Self {
        Self { inner, settings }
    }
}

impl<S, B, R> Service<Request<B>> for AbuseService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Send + 'static,
    R: RejectionBody + Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = AbuseFuture<R, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that was polled ready is called; its clone may not be ready yet.
        let clone = self.inner.clone();
        let ready = mem::replace(&mut self.inner, clone);
        AbuseFuture::new(serve(ready, request, Arc::clone(&self.settings)))
    }
}

async fn serve<S, B, R>(
    mut ready: S,
    mut request: Request<B>,
    settings: Arc<AbuseSettings>,
) -> Result<Response<R>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: RejectionBody,
{
    let head = HttpRequest::of(&request);
    let attempt = Attempt {
        ledger: ledger_of(head.extensions),
        exempt: settings.skip.applies_to(&head),
        grpc: is_grpc(&head),
        counting: settings.counting.of(head.method),
        settings,
    };
    if let Err(rejection) = enter(&attempt, &head).await {
        return Ok(rejection.into_http());
    }
    request.extensions_mut().insert(attempt.clone());
    let open = Open {
        attempt: Some(attempt),
        outcome: None,
        looks_only: request.method().is_safe(),
    };
    let served = ready.call(request).await;
    match served {
        Ok(response) => {
            let (head, body) = response.into_parts();
            open.settle(Some(&head)).await;
            Ok(Response::from_parts(head, body))
        }
        Err(error) => {
            open.settle(None).await;
            Err(error)
        }
    }
}

/// Finds the ledger of a layer further out, so that a request has one only.
fn ledger_of(extensions: &http::Extensions) -> Arc<Ledger> {
    let outer = extensions.get::<Attempt>();
    outer.map_or_else(Arc::default, |attempt| Arc::clone(&attempt.ledger))
}

/// Lets the attempt of whoever the layer goes by in.
async fn enter(attempt: &Attempt, request: &HttpRequest<'_>) -> Result<(), Rejection> {
    let settings = &attempt.settings;
    let whose = if attempt.exempt {
        Whose::Nobodys(Undecided::Skipped)
    } else {
        settings.whose(request)
    };
    match whose {
        Whose::Of(key) => attempt.by(&key).await,
        Whose::Nobodys(what) => {
            settings.tell(what);
            Ok(())
        }
        Whose::Unclear(rejection) => Err(settings.unclear(rejection, attempt.grpc)),
    }
}

/// An attempt that was let in. Dropped before it is settled, it is settled all the same.
struct Open {
    attempt: Option<Attempt>,
    /// How it ended, once that is known.
    outcome: Option<AttemptOutcome>,
    /// Its method changes nothing.
    looks_only: bool,
}

impl Open {
    /// Does what is due: by the handler's word, or else by the response, if there is one.
    async fn settle(mut self, response: Option<&http::response::Parts>) {
        let Some(attempt) = &self.attempt else {
            return;
        };
        let by_response = || {
            response.map_or(AttemptOutcome::Undecided, |response| {
                attempt.settings.outcome_of(response, attempt.counting)
            })
        };
        let outcome = attempt.ledger.word().unwrap_or_else(by_response);
        self.outcome = Some(outcome);
        attempt.ledger.settle(&attempt.settings, outcome).await;
        self.attempt = None;
    }
}

impl Drop for Open {
    /// The caller hung up, or the handler panicked. Who hangs up must not get a free guess; but who leaves a page that is slow to
    /// come made none, and a panic is nobody's guess.
    fn drop(&mut self) {
        let Some(attempt) = self.attempt.take() else {
            return;
        };
        let told = self.outcome.or_else(|| attempt.ledger.word());
        let outcome = told.unwrap_or(if self.looks_only || std::thread::panicking() {
            AttemptOutcome::Undecided
        } else {
            AttemptOutcome::Failed
        });
        settle_later(attempt, outcome);
    }
}

#[cfg(feature = "axum")]
fn settle_later(attempt: Attempt, outcome: AttemptOutcome) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move { attempt.ledger.settle(&attempt.settings, outcome).await });
    }
}

#[cfg(not(feature = "axum"))]
fn settle_later(_: Attempt, _: AttemptOutcome) {}

impl<S: std::fmt::Debug> std::fmt::Debug for AbuseService<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AbuseService")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
