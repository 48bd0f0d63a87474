//! [`LocalFailure`]: what marks the error of a local store.

use crate::{Cause, StoreError};

/// The cause of an error that a local store gave, and not the shared one that it is beside.
///
/// It has been logged as that: who gets the error from a decorator does not log it as a failure of
/// the shared store, whose requests are not affected.
#[derive(Debug, thiserror::Error)]
#[error("local store of the fallback failed")]
pub(crate) struct LocalFailure(#[source] Cause);

impl LocalFailure {
    /// Marks `error`. What has no cause stays as it is.
    pub(super) fn mark(error: StoreError) -> StoreError {
        error.with_cause(|cause| Self(cause).into())
    }

    /// Returns whether `error` was marked.
    pub(crate) fn is_in(error: &StoreError) -> bool {
        let cause = std::error::Error::source(error);
        cause.is_some_and(<dyn std::error::Error>::is::<Self>)
    }
}
