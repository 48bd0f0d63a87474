//! [`Refusal`]: a ready error value for a blocked attempt.

use std::fmt;
use std::time::Duration;

/// A ready error value: code, message, wait and JSON context, for any web framework.
///
/// | code | when | HTTP status |
/// |---|---|---|
/// | `too_many_attempts` | blocked, in a sign-in flow | 429 |
/// | `rate_limited` | blocked, elsewhere | 429 |
/// | `service_unavailable` | the store was not reached, was overloaded or full | 503 |
/// | `internal` | the store's reply was not understood | 500 |
///
/// Waits are told in whole seconds, rounded up and at least 1: who waits as long as told is never too early.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use limiter_core::{Refusal, RefusalCode};
///
/// let refusal = Refusal::blocked(RefusalCode::TooManyAttempts, None, Duration::from_millis(29_001));
/// assert_eq!(refusal.message(), "Too many attempts. Try again in 30 seconds.");
/// assert_eq!(refusal.context().to_string(), r#"{"retryAfter":30}"#);
/// assert_eq!((refusal.code().as_str(), refusal.code().http_status()), ("too_many_attempts", 429));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    code: RefusalCode,
    message: String,
    retry_after: Option<Duration>,
    details: Option<String>,
}

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalCode {
    /// A block is in force, in a sign-in flow.
    TooManyAttempts,
    /// A block is in force, elsewhere.
    RateLimited,
    /// The store was not reached, was overloaded or full.
    ServiceUnavailable,
    /// The store's reply was not understood.
    Internal,
}

impl RefusalCode {
    /// Returns the code as text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooManyAttempts => "too_many_attempts",
            Self::RateLimited => "rate_limited",
            Self::ServiceUnavailable => "service_unavailable",
            Self::Internal => "internal",
        }
    }

    /// Returns the HTTP status that fits it.
    #[must_use]
    pub const fn http_status(self) -> u16 {
        match self {
            Self::TooManyAttempts | Self::RateLimited => 429,
            Self::ServiceUnavailable => 503,
            Self::Internal => 500,
        }
    }
}

impl fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Refusal {
    /// Refuses because of a block that still lasts `retry_after`; `action` says what there were too many attempts for.
    #[must_use]
    pub fn blocked(code: RefusalCode, action: Option<&str>, retry_after: Duration) -> Self {
        let (wait, action) = (whole_seconds(retry_after), For(action));
        let seconds = if wait == 1 { "second" } else { "seconds" };
        Self {
            code,
            message: format!("Too many attempts{action}. Try again in {wait} {seconds}."),
            retry_after: Some(retry_after),
            details: None,
        }
    }

    /// Refuses because the service itself is in trouble.
    pub(super) fn in_trouble(code: RefusalCode) -> Self {
        let message = match code {
            RefusalCode::Internal => "Something went wrong on our side.",
            _ => "The service is not available right now. Try again later.",
        };
        Self {
            code,
            message: message.to_owned(),
            retry_after: None,
            details: None,
        }
    }

    pub(super) fn with_details(mut self, details: String) -> Self {
        self.details = Some(details);
        self
    }

    /// Returns the code.
    #[must_use]
    pub const fn code(&self) -> RefusalCode {
        self.code
    }

    /// Returns a message for the caller, with the wait in it.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns how long the block still lasts, exactly.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns the wait in whole seconds, as the header `Retry-After` has it.
    #[must_use]
    pub fn retry_after_secs(&self) -> Option<u64> {
        self.retry_after.map(whole_seconds)
    }

    /// Returns what to send along as JSON: `{"retryAfter":30}`, or `{}` if there is no wait.
    #[must_use]
    pub fn context(&self) -> RefusalContext {
        RefusalContext {
            retry_after_secs: self.retry_after_secs(),
        }
    }

    /// Returns what went wrong inside, if the guard was asked to tell.
    #[must_use]
    pub fn details(&self) -> Option<&str> {
        self.details.as_deref()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Refusal {}

/// The JSON context of a [`Refusal`]. Its `Display` is the JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalContext {
    /// The wait in whole seconds.
    pub retry_after_secs: Option<u64>,
}

impl fmt::Display for RefusalContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry_after_secs {
            Some(seconds) => write!(f, r#"{{"retryAfter":{seconds}}}"#),
            None => f.write_str("{}"),
        }
    }
}

fn whole_seconds(wait: Duration) -> u64 {
    let rounded_up = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    rounded_up.max(1)
}

struct For<'a>(Option<&'a str>);

impl fmt::Display for For<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |action| write!(f, " for {action}"))
    }
}

#[cfg(feature = "serde")]
mod as_data {
    use serde::ser::{Serialize, SerializeMap, Serializer};

    use super::{Refusal, RefusalContext};

    impl Serialize for RefusalContext {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(None)?;
            if let Some(seconds) = self.retry_after_secs {
                map.serialize_entry("retryAfter", &seconds)?;
            }
            map.end()
        }
    }

    impl Serialize for Refusal {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(None)?;
            map.serialize_entry("code", self.code().as_str())?;
            map.serialize_entry("message", self.message())?;
            if let Some(seconds) = self.retry_after_secs() {
                map.serialize_entry("retryAfter", &seconds)?;
            }
            map.serialize_entry("context", &self.context())?;
            if let Some(details) = self.details() {
                map.serialize_entry("details", details)?;
            }
            map.end()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_told_in_whole_seconds_and_never_too_short() {
        let cases = [
            (Duration::from_micros(1), 1),
            (Duration::from_secs(1), 1),
            (Duration::from_micros(1_000_001), 2),
            (Duration::from_mins(15), 900),
        ];
        for (wait, seconds) in cases {
            let refusal = Refusal::blocked(RefusalCode::RateLimited, None, wait);
            assert_eq!(refusal.retry_after_secs(), Some(seconds));
            assert_eq!(refusal.retry_after(), Some(wait));
        }
    }

    #[test]
    fn messages_name_the_action_and_the_wait() {
        let refuse = |action, seconds| {
            Refusal::blocked(
                RefusalCode::TooManyAttempts,
                action,
                Duration::from_secs(seconds),
            )
            .message()
            .to_owned()
        };
        assert_eq!(refuse(None, 1), "Too many attempts. Try again in 1 second.");
        assert_eq!(
            refuse(Some("the verification code"), 90),
            "Too many attempts for the verification code. Try again in 90 seconds."
        );
    }

    #[test]
    fn trouble_has_no_wait_and_tells_no_details() {
        let refusal = Refusal::in_trouble(RefusalCode::ServiceUnavailable);
        assert_eq!(refusal.context().to_string(), "{}");
        assert_eq!(
            (refusal.details(), refusal.retry_after_secs()),
            (None, None)
        );
    }
}
