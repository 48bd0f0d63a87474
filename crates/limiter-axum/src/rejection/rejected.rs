//! [`Rejection`]: a request that is turned away.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use limiter_core::{
    Challenge, CheckError, Decision, KeyResolver, Outcome, PlanName, Refusal, RefusalCode,
    StoreError, UnresolvedKey,
};

use super::{RejectionBody, problem};
use crate::headers::{Fields, keep_longest, whole_seconds};
use crate::settings::{OnRejection, Settings};
use crate::{HeaderStyle, MissingKey};

/// A request that is turned away, and all that is known of why. What replaces the usual answer is given one of these.
///
/// | reason | status |
/// |---|---|
/// | [`LimitExceeded`](RejectionReason::LimitExceeded) | 429 |
/// | [`TooManyAttempts`](RejectionReason::TooManyAttempts) | 429 |
/// | [`StoreUnavailable`](RejectionReason::StoreUnavailable) | 503 |
/// | [`NoKey`](RejectionReason::NoKey) | 400, 401 or 500, as the layer says |
/// | [`Forbidden`](RejectionReason::Forbidden) | 403 |
/// | [`CostTooLarge`](RejectionReason::CostTooLarge) | 400 |
/// | [`Misconfigured`](RejectionReason::Misconfigured) | 500 |
///
/// # Examples
/// ```
/// # use std::convert::Infallible;
/// # use http::{Request, Response};
/// # use tower::{Layer, ServiceExt};
/// # use limiter_axum::{Key, KeyFn};
/// use limiter_axum::{RateLimit, RateLimitLayer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let plans = limiter_core::InMemoryPlanRegistry::new([limiter_core::Plan::new("gold", "fixed 1/h")?])?;
/// # let store = std::sync::Arc::new(limiter_memory::MemoryStore::new());
/// # let limiter = std::sync::Arc::new(limiter_core::DefaultRateLimiter::new(std::sync::Arc::new(plans), store));
/// # let hello = tower::service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new(Vec::new())) });
/// # let everybody = KeyFn::new("key", |_| Key::new("everybody").ok());
/// let limits = RateLimitLayer::builder(limiter, everybody).limit(RateLimit::plan("gold")).on_rejection(|rejection| {
///     let mut response = Response::new(format!("{:?}", rejection.reason()).into());
///     *response.status_mut() = rejection.status();
///     response
/// });
/// let service = limits.build()?.layer(hello);
/// assert_eq!(service.clone().oneshot(Request::new(())).await?.status(), 200);
/// let denied = service.oneshot(Request::new(())).await?;
/// assert_eq!((denied.status().as_u16(), &**denied.body()), (429, &b"LimitExceeded"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Rejection(Box<Inner>);

#[derive(Clone)]
struct Inner {
    reason: RejectionReason,
    status: StatusCode,
    detail: String,
    /// For the operator alone.
    advice: Option<String>,
    /// Whether it is the store that is set up wrongly.
    of_store: bool,
    decision: Option<Decision>,
    refusal: Option<(Refusal, PlanName)>,
    /// What a caller without a key may send.
    challenges: Vec<Challenge>,
    grpc: bool,
    style: Option<HeaderStyle>,
    hook: Option<OnRejection>,
}

/// Why a request is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RejectionReason {
    /// A plan has no room.
    LimitExceeded,
    /// Attempts are blocked, by the abuse limiter.
    TooManyAttempts,
    /// The store failed, and the policy is to fail closed.
    StoreUnavailable,
    /// The request lacks what its limit goes by, or has it in a form that makes no key.
    NoKey,
    /// The caller is on the deny list.
    Forbidden,
    /// The request costs more than its plan can ever admit: no wait would help.
    CostTooLarge,
    /// The limit, or the store, is set up wrongly.
    Misconfigured,
}

/// A store that is away may be back at any moment.
const UNAVAILABLE_WAIT: Duration = Duration::from_secs(1);

impl Rejection {
    fn new(reason: RejectionReason, status: StatusCode, detail: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            reason,
            status,
            detail: detail.into(),
            advice: None,
            of_store: false,
            decision: None,
            refusal: None,
            challenges: Vec::new(),
            grpc: false,
            style: None,
            hook: None,
        }))
    }

    /// Turns a request away by a decision that is not to let it pass.
    pub(crate) fn by_decision(decision: Decision) -> Self {
        let mut rejection = match decision.outcome() {
            Outcome::Denied(denial) => {
                let detail = match whole_seconds(denial.retry_after) {
                    1 => "Retry in 1 second.".to_owned(),
                    seconds => format!("Retry in {seconds} seconds."),
                };
                let status = StatusCode::TOO_MANY_REQUESTS;
                Self::new(RejectionReason::LimitExceeded, status, detail)
            }
            Outcome::Unavailable | Outcome::Allowed => Self::new(
                RejectionReason::StoreUnavailable,
                StatusCode::SERVICE_UNAVAILABLE,
                "The service is short of capacity. Retry soon.",
            ),
        };
        rejection.0.decision = Some(decision);
        rejection
    }

    pub(crate) fn by_error(error: &CheckError) -> Self {
        match error {
            CheckError::Store(error @ StoreError::Misconfigured { .. }) => {
                let mut rejection = Self::misconfigured(&error.to_string());
                rejection.0.of_store = true;
                rejection
            }
            CheckError::Store(_) => Self::new(
                RejectionReason::StoreUnavailable,
                StatusCode::SERVICE_UNAVAILABLE,
                "The service is short of capacity. Retry soon.",
            ),
            error => Self::misconfigured(&error.to_string()),
        }
    }

    /// Tells a caller whose cost was only known in the handler that it is more than the plan can ever admit.
    #[cfg(feature = "axum")]
    pub(crate) fn by_charge_error(error: &CheckError) -> Self {
        match error {
            CheckError::Request(limiter_core::InvalidRequest::CostTooLarge {
                cost, max, ..
            }) => Self::new(
                RejectionReason::CostTooLarge,
                StatusCode::BAD_REQUEST,
                format!("The request costs {cost}; at most {max} can ever be admitted."),
            ),
            error => Self::by_error(error),
        }
    }

    /// Turns an attempt away that the guard of `policy` refused.
    pub(crate) fn by_refusal(refusal: Refusal, policy: PlanName) -> Self {
        let (reason, status) = match refusal.code() {
            RefusalCode::TooManyAttempts | RefusalCode::RateLimited => (
                RejectionReason::TooManyAttempts,
                StatusCode::TOO_MANY_REQUESTS,
            ),
            RefusalCode::ServiceUnavailable => (
                RejectionReason::StoreUnavailable,
                StatusCode::SERVICE_UNAVAILABLE,
            ),
            _ => (
                RejectionReason::Misconfigured,
                StatusCode::INTERNAL_SERVER_ERROR,
            ),
        };
        let mut rejection = Self::new(reason, status, refusal.message());
        rejection.0.of_store = reason == RejectionReason::Misconfigured;
        rejection.0.refusal = Some((refusal, policy));
        rejection
    }

    /// Turns a request without a key away, unless it is to be let pass.
    pub(crate) fn by_missing_key(error: &UnresolvedKey, rule: MissingKey) -> Option<Self> {
        let status = match (error, rule) {
            (UnresolvedKey::Misconfigured { .. }, _) => {
                return Some(Self::misconfigured(&error.to_string()));
            }
            (UnresolvedKey::Missing { .. }, MissingKey::Skip) => return None,
            (UnresolvedKey::Missing { .. }, MissingKey::Unauthorized) => StatusCode::UNAUTHORIZED,
            (UnresolvedKey::Missing { .. }, MissingKey::ServerError) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            _ => StatusCode::BAD_REQUEST,
        };
        let detail = sentence(&error.to_string());
        Some(Self::new(RejectionReason::NoKey, status, detail))
    }

    /// Asks the caller for what the layer says, or else for what `resolver` goes by.
    pub(crate) fn asking_for(mut self, said: &[Challenge], resolver: &dyn KeyResolver) -> Self {
        self.0.challenges = match said {
            [] => resolver.challenges(),
            said => said.to_vec(),
        };
        self
    }

    pub(crate) fn forbidden() -> Self {
        Self::new(
            RejectionReason::Forbidden,
            StatusCode::FORBIDDEN,
            "Access is denied.",
        )
    }

    /// Turns a request away that nobody could send better. Callers are not told why: `advice` names plans and keys.
    pub(crate) fn misconfigured(advice: &str) -> Self {
        let mut rejection = Self::new(
            RejectionReason::Misconfigured,
            StatusCode::INTERNAL_SERVER_ERROR,
            "The service is set up wrongly; its log says how.",
        );
        rejection.0.advice = Some(sentence(advice));
        rejection
    }

    /// Answers as `settings` say, in the form that the caller speaks.
    pub(crate) fn answered_by(mut self, settings: &Settings, grpc: bool) -> Self {
        self.0.style = Some(settings.header_style.clone());
        self.answered_with(settings.on_rejection.as_ref(), grpc)
    }

    /// Answers with what `hook` makes of it, in the form that the caller speaks.
    pub(crate) fn answered_with(mut self, hook: Option<&OnRejection>, grpc: bool) -> Self {
        self.0.hook = hook.cloned();
        self.0.grpc = grpc;
        self
    }

    /// Returns whether it is the store that is set up wrongly.
    pub(crate) fn is_of_store(&self) -> bool {
        self.0.of_store
    }

    /// Returns why the request is turned away.
    #[must_use]
    pub fn reason(&self) -> RejectionReason {
        self.0.reason
    }

    /// Returns the status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// Returns a sentence for the caller. It holds no key and no address, and of a service that is set up wrongly no more than that.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Returns what the operator is to do about a service that is set up wrongly: for the log, not for callers, as it names plans.
    /// The layer logs it as an error the first time.
    #[must_use]
    pub fn advice(&self) -> Option<&str> {
        self.0.advice.as_deref()
    }

    /// Returns the decision, if there was one.
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        self.0.decision.as_ref()
    }

    /// Returns the refusal of the abuse limiter, if it was one.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        self.0.refusal.as_ref().map(|(refusal, _)| refusal)
    }

    /// Returns how long to wait, if waiting helps.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.0.reason {
            RejectionReason::LimitExceeded => self.decision()?.retry_after(),
            RejectionReason::TooManyAttempts => self.refusal()?.retry_after(),
            RejectionReason::StoreUnavailable => Some(UNAVAILABLE_WAIT),
            _ => None,
        }
    }

    /// Returns how long to wait as `Retry-After` tells it: rounded up, at least 1.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after().map(whole_seconds)
    }

    /// Returns the names of the plans that denied, or of the policy that blocked.
    pub fn violated_plans(&self) -> impl Iterator<Item = &str> {
        let plans = self.decision().map(Decision::plans).unwrap_or_default();
        let denied = plans
            .iter()
            .filter(|standing| !standing.admits && standing.plan.is_enforced())
            .map(|standing| standing.plan.name().as_str());
        let blocked = self.0.reason == RejectionReason::TooManyAttempts;
        let policy = self.0.refusal.as_ref().filter(|_| blocked);
        denied.chain(policy.map(|(_, policy)| policy.as_str()))
    }

    /// Makes the usual answer, `application/problem+json`; a hook may change it and hand it on.
    #[must_use]
    pub fn problem(&self) -> Response<Bytes> {
        problem::response(self)
    }

    /// Makes the whole answer: what the hook says, or else the usual one, with the fields that every refusal has.
    #[must_use]
    pub fn into_http<B: RejectionBody>(self) -> Response<B> {
        let mut response = self.bare_response();
        let status = response.status();
        let headers = response.headers_mut();
        let no_store = HeaderValue::from_static("no-store");
        headers.entry(CACHE_CONTROL).or_insert(no_store);
        if status == StatusCode::UNAUTHORIZED && !headers.contains_key(WWW_AUTHENTICATE) {
            self.ask(headers);
        }
        if let Some(seconds) = self.retry_after_seconds() {
            keep_longest(seconds, headers);
        }
        if let (Some(style), Some(decision)) = (&self.0.style, self.decision())
            && let Some(fields) = Fields::of(style, decision, None)
        {
            fields.write(status, headers);
        }
        response.map(B::from_bytes)
    }

    /// Writes the challenges; there must be one (RFC 9110, section 15.5.2).
    fn ask(&self, headers: &mut HeaderMap) {
        let lines = self.0.challenges.iter().map(Challenge::to_string);
        for line in lines.filter_map(|line| HeaderValue::try_from(line).ok()) {
            headers.append(WWW_AUTHENTICATE, line);
        }
        let any = HeaderValue::from_static("Bearer");
        headers.entry(WWW_AUTHENTICATE).or_insert(any);
    }

    fn bare_response(&self) -> Response<Bytes> {
        #[cfg(feature = "tonic")]
        if self.0.grpc {
            return super::grpc::response(self);
        }
        match &self.0.hook {
            Some(answer) => answer(self),
            None => self.problem(),
        }
    }
}

/// Makes a sentence of an error's text.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    let end = (!text.ends_with('?')).then_some('.');
    first.into_iter().chain(letters).chain(end).collect()
}

impl fmt::Debug for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejection")
            .field("reason", &self.0.reason)
            .field("status", &self.0.status)
            .field("detail", &self.0.detail)
            .field("advice", &self.0.advice)
            .field("decision", &self.0.decision)
            .finish_non_exhaustive()
    }
}

/// For the log: [`Rejection::detail`] is what callers are told.
impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = self.advice().unwrap_or(self.detail());
        write!(f, "request is turned away: {why}")
    }
}

impl std::error::Error for Rejection {}

#[cfg(feature = "axum")]
impl axum::response::IntoResponse for Rejection {
    fn into_response(self) -> axum::response::Response {
        self.into_http()
    }
}
