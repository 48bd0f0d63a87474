//! From what redis-rs says to what it means: the one place where its errors are looked at.

use limiter_core::{Charge, StoreError};
use limiter_lua::Fault;
use redis::{ErrorKind, RedisError};

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
    pub(crate) fn of(error: &RedisError) -> Self {
        match error.kind() {
            ErrorKind::Server(_) | ErrorKind::Extension => Self::Reply(Fault::of(
                error.code().unwrap_or_default(),
                error.detail().unwrap_or_default(),
            )),
            ErrorKind::AuthenticationFailed => {
                Self::Misconfigured("give the user and password that the server knows")
            }
            ErrorKind::InvalidClientConfig | ErrorKind::EmptySentinelList => {
                Self::Misconfigured("correct the address of the server")
            }
            ErrorKind::MasterNameNotFoundBySentinel | ErrorKind::ClusterConnectionNotFound => {
                Self::NotSent
            }
            _ if error.is_connection_refusal() => Self::NotSent,
            _ => Self::Lost,
        }
    }

    /// Tells what `error`, got while connecting, means: nothing was sent.
    pub(crate) fn of_connecting(error: &RedisError) -> Self {
        match Self::of(error) {
            Self::Lost => Self::NotSent,
            Self::Reply(Fault::Unknown) if error.to_string().contains("max number of clients") => {
                Self::Reply(Fault::Overloaded)
            }
            other => other,
        }
    }

    /// Makes the error of a call that ends this way.
    pub(crate) fn into_error(self, error: RedisError, writes: bool) -> StoreError {
        match self {
            Self::Reply(fault) => fault.into_error(error),
            Self::Misconfigured(advice) => StoreError::misconfigured(advice, error),
            Self::Lost if writes => StoreError::unavailable(Charge::Possible, error),
            Self::Lost | Self::NotSent => StoreError::unavailable(Charge::Impossible, error),
        }
    }
}
