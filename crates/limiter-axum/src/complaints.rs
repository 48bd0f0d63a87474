//! What the operator is told of a layer that is set up wrongly.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Rejection, RejectionReason};

/// Tells the operator of a layer that is set up wrongly: aloud the first time, lest callers flood the log.
#[derive(Debug, Default)]
pub(crate) struct Complaints(AtomicBool);

impl Complaints {
    pub(crate) fn about(&self, rejection: &Rejection) {
        if rejection.reason() != RejectionReason::Misconfigured {
            return;
        }
        if self.0.swap(true, Ordering::Relaxed) {
            tracing::debug!(target: "limiter", "{rejection}");
        } else {
            tracing::error!(target: "limiter", "{rejection}");
        }
    }
}
