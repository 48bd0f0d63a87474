//! [`ResponseFuture`]: a request on its way through the layer.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use limiter_core::{CheckError, Decision};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::RejectionBody;
use crate::charges::{Charges, Own};
use crate::entry::Asked;
use crate::passage::Passage;
use crate::settings::Settings;

pin_project! {
    /// A request on its way: decided, then served or turned away.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        step: Step<S, B, S::Future, Result<S::Response, S::Error>>,
    }
}

pin_project! {
    #[project = StepProjection]
    enum Step<S, B, F, T> {
        Deciding {
            check: Check,
            next: Option<Box<Next<S, B>>>,
        },
        Serving {
            #[pin]
            response: F,
            // Nothing while it runs.
            passage: Option<Passage>,
            own: Own,
        },
        Refunding {
            refund: Boxed<Charges>,
            result: Option<T>,
            settings: Arc<Settings>,
        },
        Answered {
            result: Option<T>,
        },
    }
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A question to the limiter that is under way.
pub(crate) type Check = Boxed<Result<Decision, CheckError>>;

/// What is done with a request once it is decided.
pub(crate) struct Next<S, B> {
    pub(crate) asked: Box<Asked>,
    pub(crate) ready: S,
    pub(crate) request: Request<B>,
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    /// Waits for the limiter first, and does what is next if it allows.
    #[cold]
    pub(crate) fn decide(check: Check, next: Next<S, B>) -> Self {
        Self {
            step: Step::Deciding {
                check,
                next: Some(Box::new(next)),
            },
        }
    }

    /// Waits for a response.
    #[inline]
    pub(crate) const fn serve(response: S::Future, passage: Passage, own: Own) -> Self {
        Self {
            step: Step::Serving {
                response,
                passage: Some(passage),
                own,
            },
        }
    }

    /// Is answered already.
    pub(crate) const fn answer(response: S::Response) -> Self {
        Self {
            step: Step::Answered {
                result: Some(Ok(response)),
            },
        }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: RejectionBody,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut step = self.project().step;
        loop {
            let next = match step.as_mut().project() {
                StepProjection::Serving {
                    response,
                    passage,
                    own,
                } => {
                    let mut polled = Passage::around(passage, || response.poll(context));
                    let Poll::Ready(result) = &mut polled else {
                        return polled;
                    };
                    let more_to_do = |passage: &mut Passage| passage.is_shared() || own.is_kept();
                    let Some(passage) = passage.take_if(more_to_do) else {
                        own.tell(result);
                        return polled;
                    };
                    settled::<S, B, R>(passage, mem::take(own), ready!(polled))
                }
                StepProjection::Deciding { check, next } => ready!(decided(check, next, context)),
                StepProjection::Refunding {
                    refund,
                    result,
                    settings,
                } => ready!(refunded::<S, B, R>(refund, result, settings, context)),
                StepProjection::Answered { result } => {
                    return result.take().map_or(Poll::Pending, Poll::Ready);
                }
            };
            step.set(next);
        }
    }
}

/// A step of a request to `S`, which answers with bodies `R`.
type StepOf<S, B, R> = Step<
    S,
    B,
    <S as Service<Request<B>>>::Future,
    Result<Response<R>, <S as Service<Request<B>>>::Error>,
>;

/// Calls the service, or turns the request away, once the limiter has answered.
#[cold]
#[inline(never)]
fn decided<S, B, R>(
    check: &mut Check,
    next: &mut Option<Box<Next<S, B>>>,
    context: &mut Context<'_>,
) -> Poll<StepOf<S, B, R>>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: RejectionBody,
{
    let answer = ready!(check.as_mut().poll(context));
    let Some(next) = next.take() else {
        return Poll::Pending;
    };
    let Next {
        asked,
        mut ready,
        request,
    } = *next;
    Poll::Ready(match asked.answered(answer) {
        Ok((passage, own)) => Step::Serving {
            response: ready.call(request),
            passage: Some(passage),
            own,
        },
        Err(rejection) => Step::Answered {
            result: Some(Ok(rejection.into_http())),
        },
    })
}

/// Tells the client of all that the request was charged, or gives back first what is due.
#[cold]
#[inline(never)]
fn settled<S, B, R>(
    passage: Passage,
    own: Own,
    mut result: Result<Response<R>, S::Error>,
) -> StepOf<S, B, R>
where
    S: Service<Request<B>>,
{
    let charges = Charges {
        own,
        inside: passage.take_charges(),
    };
    let settings = passage.settings;
    let failed = !matches!(&result, Ok(response) if !response.status().is_server_error());
    if failed && charges.are_due_back() {
        return Step::Refunding {
            refund: Box::pin(charges.give_back_what_is_due(Arc::clone(&settings.limiter))),
            result: Some(result),
            settings,
        };
    }
    charges.write(&settings, &mut result);
    Step::Answered {
        result: Some(result),
    }
}

/// Tells the client how it stands, once what was due is given back.
#[cold]
#[inline(never)]
fn refunded<S, B, R>(
    refund: &mut Boxed<Charges>,
    result: &mut Option<Result<Response<R>, S::Error>>,
    settings: &Settings,
    context: &mut Context<'_>,
) -> Poll<StepOf<S, B, R>>
where
    S: Service<Request<B>>,
{
    let charges = ready!(refund.as_mut().poll(context));
    let mut result = result.take();
    if let Some(result) = &mut result {
        charges.write(settings, result);
    }
    Poll::Ready(Step::Answered { result })
}
