//! A subscriber of log lines that meets a failure of the very store that the line is about, as one does that asks a limiter.

#![allow(
    clippy::unwrap_used,
    reason = "a value that a test makes is good, or the test fails"
)]

use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use limiter_core::{Charge, FailureLog, StoreError};
use limiter_testkit::ManualClock;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static LOG: OnceLock<FailureLog> = OnceLock::new();

fn away() -> StoreError {
    StoreError::unavailable(Charge::Impossible, "connection refused")
}

/// Tells the log of a failure whenever it writes a line.
struct Failing;

impl Subscriber for Failing {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        LOG.get().unwrap().failed(&away(), "requests pass");
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// On a thread of its own: what locks itself out does not come back.
#[test]
fn subscriber_that_meets_a_failure_locks_nobody_out() {
    tracing::subscriber::set_global_default(Failing).unwrap();
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        let clock = ManualClock::new();
        let log = LOG.get_or_init(|| FailureLog::with_clock(Arc::new(clock.clone())));
        log.failed(&away(), "requests pass");
        clock.advance(Duration::from_secs(1));
        log.answered();
        done.send(log.is_failing()).unwrap();
    });
    let is_failing = is_done.recv_timeout(Duration::from_secs(10));
    assert_eq!(is_failing, Ok(true), "it failed again while it was logged");
}
