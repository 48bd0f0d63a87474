//! From what fred says to what it means: the one place where its errors are looked at.

use fred::error::{Error, ErrorKind};
use limiter_core::{Charge, StoreError};
use limiter_lua::Fault;

/// How fred says that a call was redirected more often than allowed.
const TOO_MANY_REDIRECTIONS: &str = "Too many redirections.";

/// What an error of the client means for a call.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server replied with an error.
    Reply(Fault),
    /// No connection was made, or the client refused: nothing was sent.
    NotSent,
    /// The client or the server is set up wrongly; nothing was sent.
    Misconfigured(&'static str),
    /// The connection failed with the call under way.
    Lost,
}

impl Failure {
    /// Tells what `error`, got from a call on a live connection, means.
    pub(crate) fn of(error: &Error) -> Self {
        if let Some((code, detail)) = reply(error) {
            return Self::Reply(Fault::of(code, detail));
        }
        match error.kind() {
            ErrorKind::Auth => {
                Self::Misconfigured("give the user and password that the server knows")
            }
            ErrorKind::Config | ErrorKind::Url => {
                Self::Misconfigured("correct the address of the server")
            }
            // The server said MOVED or ASK, and fred was told not to follow: the call did not run.
            ErrorKind::Routing if error.details() == TOO_MANY_REDIRECTIONS => {
                Self::Reply(Fault::NotNow)
            }
            ErrorKind::Backpressure | ErrorKind::Routing | ErrorKind::Sentinel => Self::NotSent,
            _ => Self::Lost,
        }
    }

    /// Tells what `error`, got while connecting, means: nothing was sent.
    pub(crate) fn of_connecting(error: &Error) -> Self {
        match Self::of(error) {
            Self::Lost => Self::NotSent,
            other => other,
        }
    }

    /// Makes the error of a call that ends this way.
    pub(crate) fn into_error(self, error: Error, writes: bool) -> StoreError {
        match self {
            Self::Reply(fault) => fault.into_error(error),
            Self::Misconfigured(advice) => StoreError::misconfigured(advice, error),
            Self::Lost if writes => StoreError::unavailable(Charge::Possible, error),
            Self::Lost | Self::NotSent => StoreError::unavailable(Charge::Impossible, error),
        }
    }
}

/// Returns code and words of an error that the server sent. fred hands on the whole line; its own errors do not begin
/// with a word in capitals.
fn reply(error: &Error) -> Option<(&str, &str)> {
    let (code, detail) = error.details().split_once(' ')?;
    let is_code = code.len() > 1 && code.bytes().all(|byte| byte.is_ascii_uppercase());
    (is_code && *error.kind() != ErrorKind::IO).then_some((code, detail))
}
