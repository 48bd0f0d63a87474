//! [`ResponseFuture`]: a request on its way through the layer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use limiter_core::{CheckError, Decision};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::scope::{Asked, Charge, Scope};
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

/// A question to the limiter that is under way. The decision to let a request pass goes into its scope.
pub(crate) struct Check(Boxed<Result<(), Rejection>>);

impl Check {
    /// Asks what `scope` says.
    pub(crate) fn new(scope: Arc<Scope>) -> Self {
        Self(Box::pin(async move {
            let Some(Asked { key, limit }) = &scope.asked else {
                return Ok(());
            };
            let limiter = &scope.settings.limiter;
            let answer = limiter.check(key, &limit.plans, limit.cost).await;
            match answer {
                Ok(decision) if decision.is_allowed() => {
                    *scope.decision() = Some(decision);
                    Ok(())
                }
                answer => Err(scope.turned_away(answer)),
            }
        }))
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Rejection>> {
        self.0.as_mut().poll(context)
    }
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
    pub(crate) const fn serve(response: S::Future, scope: Arc<Scope>) -> Self {
        Self {
            step: Step::Serving { response, scope },
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
                    match (checked, next.take()) {
                        (Ok(()), Some((mut ready, request))) => Step::Serving {
                            response: ready.call(request),
                            scope: Arc::clone(scope),
                        },
                        (Err(rejection), _) => Step::Answered {
                            result: Some(Ok(rejection.into_http())),
                        },
                        (Ok(()), None) => return Poll::Pending,
                    }
                }
                StepProjection::Serving { response, scope } => {
                    let mut result = ready!(response.poll(context));
                    if !scope.is_charged_inside() && !scope.refunds_failures() {
                        scope.write(&mut result);
                        return Poll::Ready(result);
                    }
                    let charges = Charges::of(scope);
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

impl Scope {
    /// Turns a request away that the limiter did not let pass.
    #[cold]
    fn turned_away(&self, answer: Result<Decision, CheckError>) -> Rejection {
        let rejection = match answer {
            Ok(decision) => Rejection::by_decision(decision),
            Err(error) => Rejection::by_error(&error),
        };
        self.settings.complain(&rejection);
        rejection.answered_by(&self.settings, self.grpc)
    }

    /// Says whether the layer's own charge is given back if the request fails.
    fn refunds_failures(&self) -> bool {
        let limit = self.asked.as_ref().map(|asked| &asked.limit);
        limit.is_some_and(|limit| limit.refund_failures)
    }

    /// Tells the client how it stands after the layer's own decision.
    fn write<R, E>(&self, result: &mut Result<Response<R>, E>) {
        if let (Some(asked), Ok(response)) = (&self.asked, result)
            && let Some(decision) = &*self.decision()
        {
            let (style, status) = (&self.settings.header_style, response.status());
            let headers = response.headers_mut();
            asked.limit.write(decision, style, status, headers);
        }
    }
}

/// All that a request was charged.
struct Charges {
    by_layer: Option<Charge>,
    inside: Vec<Charge>,
}

impl Charges {
    fn of(scope: &Scope) -> Self {
        let by_layer = scope.decision().take().zip(scope.asked.as_ref());
        Self {
            by_layer: by_layer.map(|(decision, asked)| {
                let limit = Arc::clone(&asked.limit);
                Charge::new(asked.key.clone(), limit, decision)
            }),
            inside: scope.take_charges(),
        }
    }

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
