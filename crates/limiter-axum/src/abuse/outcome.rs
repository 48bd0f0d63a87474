//! [`AttemptOutcome`]: how an attempt ended.

use http::header::{CONTENT_TYPE, HeaderValue};
use http::response::Parts;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptOutcome {
    /// The caller was wrong: a wrong password, a wrong code. It counts.
    Failed,
    /// The caller was right: earlier attempts are forgiven.
    Succeeded,
    /// Neither: the server failed, or the request was no attempt at all. Nothing is forgiven.
    Undecided,
}

impl AttemptOutcome {
    /// Judges by the response alone, unless the layer or the handler knows better.
    ///
    /// | response | outcome |
    /// |---|---|
    /// | 401, 403 | failed |
    /// | 2xx | succeeded |
    /// | gRPC: `UNAUTHENTICATED`, `PERMISSION_DENIED` | failed |
    /// | gRPC: `OK`, told at once | succeeded |
    /// | anything else | undecided |
    ///
    /// A redirection is undecided, as sign-in pages redirect both ways.
    #[must_use]
    pub fn of_response(response: &Parts) -> Self {
        let header = |name| response.headers.get(name).map(HeaderValue::as_bytes);
        if header(CONTENT_TYPE.as_str()).is_some_and(|it| it.starts_with(b"application/grpc")) {
            return match header("grpc-status") {
                Some(b"0") => Self::Succeeded,
                Some(b"7" | b"16") => Self::Failed,
                _ => Self::Undecided,
            };
        }
        match response.status.as_u16() {
            401 | 403 => Self::Failed,
            200..300 => Self::Succeeded,
            _ => Self::Undecided,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: u16, grpc_status: Option<&str>) -> AttemptOutcome {
        let mut response = http::Response::builder().status(status);
        if let Some(code) = grpc_status {
            response = response
                .header("content-type", "application/grpc+proto")
                .header("grpc-status", code);
        }
        AttemptOutcome::of_response(&response.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn responses_are_judged_by_their_status() {
        use AttemptOutcome::{Failed, Succeeded, Undecided};
        for (status, outcome) in [
            (200, Succeeded),
            (204, Succeeded),
            (303, Undecided),
            (400, Undecided),
            (401, Failed),
            (403, Failed),
            (404, Undecided),
            (429, Undecided),
            (500, Undecided),
        ] {
            assert_eq!(judged(status, None), outcome, "{status}");
        }
        for (code, outcome) in [
            ("0", Succeeded),
            ("7", Failed),
            ("16", Failed),
            ("13", Undecided),
        ] {
            assert_eq!(judged(200, Some(code)), outcome, "gRPC {code}");
        }
    }
}
