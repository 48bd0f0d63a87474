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
use crate::entry::Question;
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
            question: Box<Question>,
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
            refund: Refund,
            result: Option<T>,
        },
        Answered {
            result: Option<T>,
        },
    }
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A question to the limiter that is under way.
pub(crate) type Check = Boxed<Result<Decision, CheckError>>;

/// Charges that are given back before the client is told of them.
struct Refund {
    call: Boxed<Charges>,
    settings: Arc<Settings>,
}

/// What is done with a request once it is decided.
pub(crate) struct Next<S, B> {
    pub(crate) ready: S,
    pub(crate) request: Request<B>,
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    /// Waits for the limiter first, and does what is next if it allows.
    #[cold]
    pub(crate) fn decide(question: Box<Question>, next: Next<S, B>) -> Self {
        Self {
            step: Step::Deciding {
                question,
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
        poll_step::<S, B, R>(self.project().step, context)
    }
}

/// A step of a request to `S`, which answers with bodies `R`.
type StepOf<S, B, R> = Step<
    S,
    B,
    <S as Service<Request<B>>>::Future,
    Result<Response<R>, <S as Service<Request<B>>>::Error>,
>;

/// What a service answers.
type Answer<S, B, R> = Poll<Result<Response<R>, <S as Service<Request<B>>>::Error>>;

/// Goes on with a request: nearly always, all there is to do is to wait for the response.
#[inline]
fn poll_step<S, B, R>(
    mut step: Pin<&mut StepOf<S, B, R>>,
    context: &mut Context<'_>,
) -> Answer<S, B, R>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: RejectionBody,
{
    let StepProjection::Serving {
        response,
        passage,
        own,
    } = step.as_mut().project()
    else {
        return poll_detour::<S, B, R>(step, context);
    };
    let polled = Passage::around(passage, || response.poll(context));
    let is_shared = passage.as_ref().is_some_and(Passage::is_shared);
    if matches!(own, Own::Nothing) && !is_shared {
        return polled;
    }
    served::<S, B, R>(step, polled, context)
}

/// Tells the client of what the request was charged once it is served, or gives back first what is due.
#[inline(never)]
fn served<S, B, R>(
    mut step: Pin<&mut StepOf<S, B, R>>,
    mut polled: Answer<S, B, R>,
    context: &mut Context<'_>,
) -> Answer<S, B, R>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: RejectionBody,
{
    if let Poll::Ready(result) = &mut polled
        && let StepProjection::Serving { passage, own, .. } = step.as_mut().project()
        && let Some(refund) = settled(passage, own, result)
    {
        let result = Some(ready!(polled));
        step.set(Step::Refunding { refund, result });
        return poll_detour::<S, B, R>(step, context);
    }
    polled
}

/// Waits for the limiter, or for what is given back.
#[cold]
#[inline(never)]
fn poll_detour<S, B, R>(
    mut step: Pin<&mut StepOf<S, B, R>>,
    context: &mut Context<'_>,
) -> Answer<S, B, R>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: RejectionBody,
{
    match step.as_mut().project() {
        StepProjection::Deciding { question, next } => {
            let decided = ready!(decided(question, next, context));
            step.set(decided);
            poll_step::<S, B, R>(step, context)
        }
        StepProjection::Refunding { refund, result } => {
            let charges = ready!(refund.call.as_mut().poll(context));
            let Some(mut result) = result.take() else {
                return Poll::Pending;
            };
            charges.write(&refund.settings, &mut result);
            step.set(Step::Answered { result: None });
            Poll::Ready(result)
        }
        StepProjection::Answered { result } => result.take().map_or(Poll::Pending, Poll::Ready),
        StepProjection::Serving { .. } => poll_step::<S, B, R>(step, context),
    }
}

/// Calls the service, or turns the request away, once the limiter has answered.
#[cold]
#[inline(never)]
fn decided<S, B, R>(
    question: &mut Question,
    next: &mut Option<Box<Next<S, B>>>,
    context: &mut Context<'_>,
) -> Poll<StepOf<S, B, R>>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: RejectionBody,
{
    let Question { check, asked } = question;
    let answer = ready!(check.as_mut().poll(context));
    let Some(next) = next.take() else {
        return Poll::Pending;
    };
    let Next { mut ready, request } = *next;
    Poll::Ready(match asked.answered(answer) {
        Ok(own) => Step::Serving {
            response: ready.call(request),
            passage: Some(asked.passage()),
            own,
        },
        Err(rejection) => Step::Answered {
            result: Some(Ok(rejection.into_http())),
        },
    })
}

/// Tells the client of all that the request was charged, or returns what has to be given back first.
#[inline]
fn settled<R, E>(
    passage: &mut Option<Passage>,
    own: &mut Own,
    result: &mut Result<Response<R>, E>,
) -> Option<Refund> {
    let more_to_do = |passage: &mut Passage| passage.is_shared() || own.is_kept();
    if let Some(passage) = passage.take_if(more_to_do) {
        return settled_in_full(&passage, mem::take(own), result);
    }
    own.tell(result);
    None
}

#[cold]
#[inline(never)]
fn settled_in_full<R, E>(
    passage: &Passage,
    own: Own,
    result: &mut Result<Response<R>, E>,
) -> Option<Refund> {
    let charges = Charges {
        own,
        inside: passage.take_charges(),
    };
    let settings = passage.settings();
    let failed = !matches!(result, Ok(response) if !response.status().is_server_error());
    if failed && charges.are_due_back() {
        return Some(Refund {
            call: Box::pin(charges.give_back_what_is_due(Arc::clone(&settings.limiter))),
            settings: Arc::clone(settings),
        });
    }
    charges.write(settings, result);
    None
}
