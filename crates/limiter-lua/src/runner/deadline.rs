//! The deadline of a call, and what is known when it passes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use limiter_core::{Charge, StoreError};

use super::Driver;
use super::destination::NotConnected;
use super::link::{Link, Live};

/// Says that a call was not answered before its deadline.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {deadline:?}: {what}")]
pub(super) struct DeadlinePassed {
    deadline: Duration,
    what: &'static str,
}

/// Whether a server may be running a call at this moment, and on which connection it was sent.
#[derive(Debug)]
pub(super) struct Sent<D: Driver>(Mutex<Option<On<D>>>);

/// The connection that a call was sent on: a link, and which of its connections.
#[derive(Debug)]
struct On<D: Driver> {
    link: Link<D>,
    generation: u64,
    is_under_way: bool,
}

impl<D: Driver> Default for Sent<D> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<D: Driver> Sent<D> {
    /// Notes that the call is sent on a connection.
    pub(super) fn on(&self, link: &Link<D>, live: &Live<D>) {
        *self.lock() = Some(On {
            link: link.clone(),
            generation: live.generation(),
            is_under_way: true,
        });
    }

    /// Notes that the call did not run, and is not on its way: it was answered so, or never sent.
    pub(super) fn back(&self) {
        if let Some(on) = &mut *self.lock() {
            on.is_under_way = false;
        }
    }

    /// Returns the link on which the call is under way.
    pub(super) fn link(&self) -> Option<Link<D>> {
        let on = self.lock();
        let under_way = on.as_ref().filter(|on| on.is_under_way);
        under_way.map(|on| on.link.clone())
    }

    /// Notes that the call, if it is under way, went unanswered.
    pub(super) fn note_silence(&self) {
        if let Some(on) = self.lock().as_ref().filter(|on| on.is_under_way) {
            on.link.note_silence(on.generation);
        }
    }

    /// Gives up the connection that the call was sent on: its reply was not one to this call.
    pub(super) fn give_up_connection(&self) {
        let on = self.lock().take();
        if let Some(on) = on {
            let why = NotConnected::Said("a reply did not fit its call");
            on.link.give_up(on.generation, why);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<On<D>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
