//! The deadline of a call, and what is known when it passes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use limiter_core::{Charge, StoreError};

/// Says that a call was not answered before its deadline.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {deadline:?}: {what}")]
pub(super) struct DeadlinePassed {
    deadline: Duration,
    what: &'static str,
}

/// Whether a server may be running a call at this moment, and on which link it was sent.
#[derive(Debug)]
pub(super) struct Sent(AtomicUsize);

const NOT_SENT: usize = usize::MAX;

impl Default for Sent {
    fn default() -> Self {
        Self(AtomicUsize::new(NOT_SENT))
    }
}

impl Sent {
    /// Notes that the call is sent on the link of that number.
    pub(super) fn on(&self, link: usize) {
        self.0.store(link, Ordering::Relaxed);
    }

    /// Notes that the call did not run, and is not on its way: it was answered so, or never sent.
    pub(super) fn back(&self) {
        self.0.store(NOT_SENT, Ordering::Relaxed);
    }

    pub(super) fn link(&self) -> Option<usize> {
        Some(self.0.load(Ordering::Relaxed)).filter(|link| *link != NOT_SENT)
    }

    /// Makes the error of a call whose deadline passed.
    pub(super) fn deadline_passed(&self, deadline: Duration, writes: bool) -> StoreError {
        let (charge, what) = match (self.link().is_some(), writes) {
            (true, true) => (
                Charge::Possible,
                "the call was sent and may still take effect",
            ),
            (true, false) => (Charge::Impossible, "the call was sent and changes nothing"),
            (false, _) => (
                Charge::Impossible,
                "the call did not run: there was no connection, or server or process were not ready for it",
            ),
        };
        StoreError::unavailable(charge, DeadlinePassed { deadline, what })
    }
}
