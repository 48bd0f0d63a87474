//! `application/problem+json` (RFC 9457).

use std::fmt::Write;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use limiter_core::RefusalContext;

use super::{Rejection, RejectionReason};

const PROBLEM_TYPES: &str = "https://iana.org/assignments/http-problem-types";

/// Writes a refusal as a problem. It never tells a key, an address or the plan's price.
pub(super) fn response(rejection: &Rejection) -> Response<Bytes> {
    let status = rejection.status();
    let (kind, title) = match rejection.reason() {
        RejectionReason::LimitExceeded => (Some("quota-exceeded"), "Quota Exceeded"),
        RejectionReason::TooManyAttempts => {
            (Some("abnormal-usage-detected"), "Abnormal Usage Detected")
        }
        RejectionReason::StoreUnavailable => (
            Some("temporary-reduced-capacity"),
            "Temporary Reduced Capacity",
        ),
        _ => (None, status.canonical_reason().unwrap_or("Error")),
    };
    let mut body = Members::default();
    match kind {
        Some(kind) => body.text("type", &format!("{PROBLEM_TYPES}#{kind}")),
        None => body.text("type", "about:blank"),
    }
    body.text("title", title);
    body.raw("status", status.as_u16());
    body.text("detail", rejection.detail());
    let violated: Vec<String> = rejection.violated_plans().map(quoted).collect();
    if !violated.is_empty() {
        body.raw(
            "violated-policies",
            format_args!("[{}]", violated.join(",")),
        );
    }
    if let Some(seconds) = rejection.retry_after_seconds() {
        body.raw("retryAfter", seconds);
    }
    if let Some(refusal) = rejection.refusal() {
        body.text("code", refusal.code().as_str());
        let retry_after_secs = rejection.retry_after_seconds();
        body.raw("context", RefusalContext { retry_after_secs });
        if let Some(details) = refusal.details() {
            body.text("details", details);
        }
    }
    let mut response = Response::new(body.finish());
    *response.status_mut() = status;
    let media_type = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

/// The members of a JSON object.
#[derive(Default)]
struct Members(String);

impl Members {
    fn text(&mut self, name: &str, text: &str) {
        self.raw(name, quoted(text));
    }

    fn raw(&mut self, name: &str, value: impl std::fmt::Display) {
        let separator = if self.0.is_empty() { '{' } else { ',' };
        let _ = write!(self.0, "{separator}\"{name}\":{value}");
    }

    fn finish(mut self) -> Bytes {
        self.0.push('}');
        self.0.into()
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        let _ = match letter {
            '"' | '\\' => write!(quoted, "\\{letter}"),
            '\0'..='\x1f' => write!(quoted, "\\u{:04x}", u32::from(letter)),
            _ => quoted.write_char(letter),
        };
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn prop_any_text_reads_back_from_json(text: String) {
            prop_assert_eq!(serde_json::from_str::<String>(&quoted(&text)).unwrap(), text);
        }
    }
}
