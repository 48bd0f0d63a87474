//! What the operator is told of a layer that is set up wrongly.

use limiter_core::LogThrottle;

use crate::{Rejection, RejectionReason};

/// Tells the operator of a layer that is set up wrongly: each mistake at most once a minute, lest
/// callers flood the log. A store that is set up wrongly is told by the limiter.
#[derive(Debug, Default)]
pub(crate) struct Complaints(LogThrottle);

impl Complaints {
    pub(crate) fn about(&self, rejection: &Rejection) {
        if rejection.reason() == RejectionReason::Misconfigured && !rejection.is_of_store() {
            let what = rejection.advice().unwrap_or(rejection.detail());
            self.0.error(what, || rejection.to_string());
        }
    }
}

#[cfg(feature = "axum")]
thread_local! {
    /// One a thread: where there is no layer, there is nothing that requests share.
    static WITHOUT_LAYER: Complaints = Complaints::default();
}

/// Tells the operator of a handler that asks for a layer that is not there.
#[cfg(feature = "axum")]
pub(crate) fn complain_without_layer(rejection: &Rejection) {
    WITHOUT_LAYER.with(|complaints| complaints.about(rejection));
}
