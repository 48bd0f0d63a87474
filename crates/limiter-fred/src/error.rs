//! From what fred says to what it means: the one place where its errors are looked at.

use fred::error::{Error, ErrorKind};
use limiter_lua::{Failure, Fault};

/// How fred says that a call was redirected more often than allowed.
const TOO_MANY_REDIRECTIONS: &str = "Too many redirections.";

/// Tells what `error`, got from a call on a live connection, means.
pub(crate) fn failure(error: &Error) -> Failure {
    if let Some((code, detail)) = reply(error) {
        return Failure::Reply(Fault::of(code, detail));
    }
    match error.kind() {
        ErrorKind::Auth => Failure::WRONG_PASSWORD,
        ErrorKind::Config | ErrorKind::Url => Failure::WRONG_ADDRESS,
        // A node of a cluster said MOVED or ASK, and the user's client was told not to follow: the call did not run.
        ErrorKind::Routing if error.details() == TOO_MANY_REDIRECTIONS => {
            Failure::Reply(Fault::NotNow)
        }
        ErrorKind::Backpressure | ErrorKind::Routing | ErrorKind::Sentinel => Failure::NotSent,
        _ => Failure::Lost,
    }
}

/// Returns code and words of an error that the server sent. fred hands on the whole line; its own errors do not begin
/// with a word in capitals.
fn reply(error: &Error) -> Option<(&str, &str)> {
    let (code, detail) = error.details().split_once(' ')?;
    // Redis 6.2 begins what a user may not do inside a script with the place.
    let is_code = code.len() > 1 && code.bytes().all(|byte| byte.is_ascii_uppercase())
        || code.starts_with("@user_script");
    (is_code && *error.kind() != ErrorKind::IO).then_some((code, detail))
}
