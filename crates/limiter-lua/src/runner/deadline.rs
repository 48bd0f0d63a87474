//! The deadline of a call, and what is known when it passes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use limiter_core::{Charge, StoreError};

/// Says that a call was not answered before its deadline.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {deadline:?}: {what}")]
pub(super) struct DeadlinePassed {
    deadline: Duration,
    what: &'static str,
}

/// Whether the server may be running a call at this moment.
#[derive(Debug, Default)]
pub(super) struct Sent(AtomicBool);

impl Sent {
    pub(super) fn set(&self, sent: bool) {
        self.0.store(sent, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Makes the error of a call whose deadline passed.
    pub(super) fn deadline_passed(&self, deadline: Duration, writes: bool) -> StoreError {
        let (charge, what) = match (self.get(), writes) {
            (true, true) => (
                Charge::Possible,
                "the call was sent and may still take effect",
            ),
            (true, false) => (Charge::Impossible, "the call was sent and changes nothing"),
            (false, _) => (Charge::Impossible, "there was no connection to send it on"),
        };
        StoreError::unavailable(charge, DeadlinePassed { deadline, what })
    }
}
