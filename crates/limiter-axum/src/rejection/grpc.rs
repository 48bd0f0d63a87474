//! Refusals as gRPC clients expect them: an answer of headers alone, with status 200 and a code.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::{Rejection, RejectionReason};

/// Tells the retries of stock gRPC clients how long to wait.
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Says whether a request is gRPC.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    media_type.is_some_and(|it| it.starts_with(b"application/grpc"))
}

pub(super) fn response(rejection: &Rejection) -> Response<Bytes> {
    let wait = rejection.retry_after();
    let mut details = ErrorDetails::new();
    if let Some(wait) = wait {
        details.set_retry_info(Some(wait));
    }
    for plan in rejection.violated_plans() {
        details.add_quota_failure_violation(plan, "exhausted");
    }
    let status = Status::with_error_details(code(rejection), rejection.detail(), details);
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    if status.add_header(headers).is_err() {
        headers.insert("grpc-status", HeaderValue::from(Code::Internal as i32));
    }
    if let Some(wait) = wait {
        headers.insert(PUSHBACK, HeaderValue::from(whole_milliseconds(wait)));
    }
    response
}

fn code(rejection: &Rejection) -> Code {
    match (rejection.reason(), rejection.status()) {
        (RejectionReason::LimitExceeded | RejectionReason::TooManyAttempts, _) => {
            Code::ResourceExhausted
        }
        (RejectionReason::StoreUnavailable, _) => Code::Unavailable,
        (RejectionReason::CostTooLarge, _) => Code::OutOfRange,
        (RejectionReason::Forbidden, _) => Code::PermissionDenied,
        (_, StatusCode::UNAUTHORIZED) => Code::Unauthenticated,
        (_, StatusCode::BAD_REQUEST) => Code::InvalidArgument,
        _ => Code::Internal,
    }
}

fn whole_milliseconds(wait: Duration) -> u64 {
    let millis = wait.as_micros().div_ceil(1_000);
    u64::try_from(millis).unwrap_or(u64::MAX).max(1)
}
