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
            check: Boxed<Checked>,
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
            refund: Boxed<Vec<Charge>>,
            result: Option<T>,
            settings: Arc<Settings>,
        },
        Answered {
            result: Option<T>,
        },
    }
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The limiter's answer, with what it was asked.
struct Checked {
    answer: Result<Decision, CheckError>,
    key: Key,
    limit: Arc<CheckedLimit>,
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    /// Asks the limiter first, and calls `ready` with `request` if it allows.
    pub(crate) fn decide(
        key: Key,
        limit: Arc<CheckedLimit>,
        scope: Arc<Scope>,
        ready: S,
        request: Request<B>,
    ) -> Self {
        let limiter = Arc::clone(&scope.settings.limiter);
        let check = Box::pin(async move {
            let answer = limiter.check(&key, &limit.plans, limit.cost).await;
            Checked { answer, key, limit }
        });
        Self {
            step: Step::Deciding {
                check,
                next: Some((ready, request)),
                scope,
            },
        }
    }

    /// Waits for a response to which nothing was charged so far.
    pub(crate) const fn serve(response: S::Future, scope: Arc<Scope>) -> Self {
        Self {
            step: Step::Serving {
                response,
                charge: None,
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
                    let checked = ready!(check.as_mut().poll(context));
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
                    let result = ready!(response.poll(context));
                    let charges = charge.take().into_iter().chain(scope.take_charges());
                    report(result, charges.collect(), &scope.settings)
                }
                StepProjection::Refunding {
                    refund,
                    result,
                    settings,
                } => {
                    let charges = ready!(refund.as_mut().poll(context));
                    let mut result = result.take();
                    if let Some(Ok(response)) = &mut result {
                        write(response, &charges, settings);
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

fn allowed(checked: Checked, scope: &Scope) -> Result<Charge, Rejection> {
    let Checked { answer, key, limit } = checked;
    let rejection = match answer {
        Ok(decision) if decision.is_allowed() => return Ok(Charge::new(key, limit, decision)),
        Ok(decision) => Rejection::by_decision(decision),
        Err(error) => Rejection::by_error(&error),
    };
    scope.settings.complain(&rejection);
    Err(rejection.answered_by(&scope.settings, scope.grpc))
}

/// Tells the client how it stands, after what is due back was given back.
fn report<S, B, F, R, E>(
    mut result: Result<Response<R>, E>,
    mut charges: Vec<Charge>,
    settings: &Arc<Settings>,
) -> Step<S, B, F, Result<Response<R>, E>> {
    let failed = !matches!(&result, Ok(response) if !response.status().is_server_error());
    if failed && charges.iter().any(Charge::is_due_back) {
        let refunding = Arc::clone(settings);
        let refund = Box::pin(async move {
            for charge in charges.iter_mut().filter(|charge| charge.is_due_back()) {
                charge.give_back(&refunding).await;
            }
            charges
        });
        return Step::Refunding {
            refund,
            result: Some(result),
            settings: Arc::clone(settings),
        };
    }
    if let Ok(response) = &mut result {
        write(response, &charges, settings);
    }
    Step::Answered {
        result: Some(result),
    }
}

fn write<R>(response: &mut Response<R>, charges: &[Charge], settings: &Settings) {
    let status = response.status();
    for charge in charges {
        charge.write(settings, status, response.headers_mut());
    }
}
