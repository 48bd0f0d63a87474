//! [`Unanswered`]: a call that has no answer yet.

use std::time::Duration;

use limiter_core::StoreError;

use super::Driver;
use super::deadline::Sent;
use super::router::Router;

/// A call that has no answer yet. Dropped so, because its deadline passed or its caller gave up
/// before, it has met with trouble: its connection was silent, and its node may no longer be the
/// one to call.
#[derive(Debug)]
pub(super) struct Unanswered<'a, D: Driver> {
    router: &'a Router<D>,
    sent: Sent<D>,
    is_answered: bool,
}

impl<'a, D: Driver> Unanswered<'a, D> {
    pub(super) fn new(router: &'a Router<D>) -> Self {
        Self {
            router,
            sent: Sent::default(),
            is_answered: false,
        }
    }

    pub(super) const fn sent(&self) -> &Sent<D> {
        &self.sent
    }

    /// Notes that the call is over, for better or worse, before its deadline.
    pub(super) const fn note_answer(&mut self) {
        self.is_answered = true;
    }

    /// Makes the error of a call whose deadline passed.
    pub(super) fn deadline_passed(self, deadline: Duration, writes: bool) -> StoreError {
        self.sent.deadline_passed(deadline, writes)
    }
}

impl<D: Driver> Drop for Unanswered<'_, D> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.sent.note_silence();
            self.router.note_trouble();
        }
    }
}
