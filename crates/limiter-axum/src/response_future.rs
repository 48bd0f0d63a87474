//! [`ResponseFuture`]: a request on its way through the layer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use limiter_core::{CheckError, Decision, Key};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::rate_limit::CheckedLimit;
use crate::scope::{Charge, Scope};
use crate::settings::Settings;
use crate::{Rejection, RejectionBody};

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
            next: Option<(S, Request<B>)>,
            scope: Arc<Scope>,
        },
        Serving {
            #[pin]
            response: F,
            charge: Option<Charge>,
            scope: Arc<Scope>,
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
pub(crate) struct Check(Boxed<Checked>);

impl Check {
    pub(crate) fn new(settings: &Settings, key: Key, limit: Arc<CheckedLimit>) -> Self {
        let limiter = Arc::clone(&settings.limiter);
        Self(Box::pin(async move {
            let answer = limiter.check(&key, &limit.plans, limit.cost).await;
            Checked { answer, key, limit }
        }))
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Checked> {
        self.0.as_mut().poll(context)
    }
}

/// The limiter's answer, with what it was asked.
pub(crate) struct Checked {
    answer: Result<Decision, CheckError>,
    key: Key,
    limit: Arc<CheckedLimit>,
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    /// Waits for the limiter first, and calls `ready` with `request` if it allows.
    pub(crate) const fn decide(
        check: Check,
        scope: Arc<Scope>,
        ready: S,
        request: Request<B>,
    ) -> Self {
        Self {
            step: Step::Deciding {
                check,
                next: Some((ready, request)),
                scope,
            },
        }
    }

    /// Waits for a response.
    pub(crate) const fn serve(
        response: S::Future,
        charge: Option<Charge>,
        scope: Arc<Scope>,
    ) -> Self {
        Self {
            step: Step::Serving {
                response,
                charge,
                scope,
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
                StepProjection::Deciding { check, next, scope } => {
                    let checked = ready!(check.poll(context));
                    match (allowed(checked, scope), next.take()) {
                        (Ok(charge), Some((mut ready, request))) => Step::Serving {
                            response: ready.call(request),
                            charge: Some(charge),
                            scope: Arc::clone(scope),
                        },
                        (Err(rejection), _) => Step::Answered {
                            result: Some(Ok(rejection.into_http())),
                        },
                        (Ok(_), None) => return Poll::Pending,
                    }
                }
                StepProjection::Serving {
                    response,
                    charge,
                    scope,
                } => {
                    let mut result = ready!(response.poll(context));
                    let charges = Charges {
                        by_layer: charge.take(),
                        inside: scope.take_charges(),
                    };
                    let settings = Arc::clone(&scope.settings);
                    if !charges.are_due_back_after(&result) {
                        charges.write(&settings, &mut result);
                        return Poll::Ready(result);
                    }
                    Step::Refunding {
                        refund: Box::pin(charges.give_back_what_is_due(Arc::clone(&settings))),
                        result: Some(result),
                        settings,
                    }
                }
                StepProjection::Refunding {
                    refund,
                    result,
                    settings,
                } => {
                    let charges = ready!(refund.as_mut().poll(context));
                    let mut result = result.take();
                    if let Some(result) = &mut result {
                        charges.write(settings, result);
                    }
                    Step::Answered { result }
                }
                StepProjection::Answered { result } => {
                    return result.take().map_or(Poll::Pending, Poll::Ready);
                }
            };
            step.set(next);
        }
    }
}

/// Says what is charged, or why the request is turned away.
pub(crate) fn allowed(checked: Checked, scope: &Scope) -> Result<Charge, Rejection> {
    let Checked { answer, key, limit } = checked;
    let rejection = match answer {
        Ok(decision) if decision.is_allowed() => return Ok(Charge::new(key, limit, decision)),
        Ok(decision) => Rejection::by_decision(decision),
        Err(error) => Rejection::by_error(&error),
    };
    scope.settings.complain(&rejection);
    Err(rejection.answered_by(&scope.settings, scope.grpc))
}

/// All that a request was charged.
struct Charges {
    by_layer: Option<Charge>,
    inside: Vec<Charge>,
}

impl Charges {
    fn iter(&self) -> impl Iterator<Item = &Charge> {
        self.by_layer.iter().chain(&self.inside)
    }

    async fn give_back_what_is_due(mut self, settings: Arc<Settings>) -> Self {
        let all = self.by_layer.iter_mut().chain(&mut self.inside);
        for charge in all.filter(|charge| charge.is_due_back()) {
            charge.give_back(&settings).await;
        }
        self
    }

    fn are_due_back_after<R, E>(&self, result: &Result<Response<R>, E>) -> bool {
        let served = matches!(result, Ok(response) if !response.status().is_server_error());
        !served && self.iter().any(Charge::is_due_back)
    }

    /// Tells the client how it stands.
    fn write<R, E>(&self, settings: &Settings, result: &mut Result<Response<R>, E>) {
        if let Ok(response) = result {
            let status = response.status();
            for charge in self.iter() {
                charge.write(settings, status, response.headers_mut());
            }
        }
    }
}
