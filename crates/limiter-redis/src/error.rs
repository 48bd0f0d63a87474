//! From what redis-rs says to what it means: the one place where its errors are looked at.

use limiter_lua::{Failure, Fault};
use redis::{ErrorKind, RedisError};

/// Tells what `error`, got from a call on a live connection, means.
pub(crate) fn failure(error: &RedisError) -> Failure {
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => Failure::Reply(Fault::of(
            error.code().unwrap_or_default(),
            error.detail().unwrap_or_default(),
        )),
        ErrorKind::AuthenticationFailed => Failure::WRONG_PASSWORD,
        ErrorKind::InvalidClientConfig | ErrorKind::EmptySentinelList => Failure::WRONG_ADDRESS,
        ErrorKind::MasterNameNotFoundBySentinel | ErrorKind::ClusterConnectionNotFound => {
            Failure::NotSent
        }
        _ if error.is_connection_refusal() => Failure::NotSent,
        _ => Failure::Lost,
    }
}

/// Tells what `error`, got while connecting, means: nothing was sent.
pub(crate) fn failure_to_connect(error: &RedisError) -> Failure {
    // What the server refused while redis-rs set a connection up comes without its code.
    let says = |words| error.to_string().contains(words);
    match failure(error) {
        Failure::Reply(Fault::Unknown) if says("max number of clients") => {
            Failure::Reply(Fault::Overloaded)
        }
        Failure::Reply(Fault::Unknown) if says("no permissions") => Failure::NOT_GRANTED,
        Failure::Lost | Failure::Reply(Fault::Unknown) => Failure::NotSent,
        other => other,
    }
}
