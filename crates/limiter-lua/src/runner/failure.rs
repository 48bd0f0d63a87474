//! [`Failure`]: what an error of a client means for a call.

use limiter_core::{Cause, Charge, StoreError};

use crate::Fault;

/// What an error of a client means for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server replied with an error.
    Reply(Fault),
    /// No connection was made, or the client refused: nothing was sent.
    NotSent,
    /// The client or the server is set up wrongly; nothing was sent. The words say what to do.
    Misconfigured(&'static str),
    /// The connection failed with the call under way.
    Lost,
}

impl Failure {
    /// The server does not know the user, or the password is not the user's.
    pub const WRONG_PASSWORD: Self =
        Self::Misconfigured("give the user and password that the server knows");
    /// The client refuses the address.
    pub const WRONG_ADDRESS: Self = Self::Misconfigured("correct the address of the server");

    /// The user may not do what is needed.
    pub const NOT_GRANTED: Self = Self::Misconfigured(crate::fault::GRANT);

    /// Makes the error of a call that ends this way; `writes` says whether the call would have changed anything.
    #[must_use]
    pub fn into_error(self, cause: impl Into<Cause>, writes: bool) -> StoreError {
        match self {
            Self::Reply(fault) => settled(fault.into_error(cause), writes),
            Self::Misconfigured(advice) => StoreError::misconfigured(advice, cause),
            Self::Lost if writes => StoreError::unavailable(Charge::Possible, cause),
            Self::Lost | Self::NotSent => StoreError::unavailable(Charge::Impossible, cause),
        }
    }
}

/// Returns the error of a call as it is if the call `writes`; one that changes nothing cannot have charged, whatever went wrong.
pub(crate) fn settled(error: StoreError, writes: bool) -> StoreError {
    if writes {
        error
    } else {
        error.with_charge(Charge::Impossible)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_that_changes_nothing_has_charged_nothing() {
        for failure in [
            Failure::Lost,
            Failure::NotSent,
            Failure::WRONG_ADDRESS,
            Failure::Reply(Fault::Unknown),
            Failure::Reply(Fault::Partly("")),
        ] {
            assert!(!failure.into_error("words", false).may_have_charged());
        }
        for failure in [Failure::Lost, Failure::Reply(Fault::Unknown)] {
            assert!(failure.into_error("words", true).may_have_charged());
        }
    }
}
