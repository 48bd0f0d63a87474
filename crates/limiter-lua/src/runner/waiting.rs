//! [`Waiting`]: the jobs that wait to leave together.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::Driver;
use super::departure::{Caller, Departure, Entry};
use super::owned_job::OwnedJob;

/// How many jobs leave together at most: the first is answered with the last, and while a server works on some, others
/// can be made ready.
pub(super) const MOST: usize = 32;

/// The jobs that wait to leave together, in the order in which they came.
#[derive(Debug)]
pub(super) struct Waiting<D: Driver> {
    entries: Vec<Entry<D>>,
    /// When the first of them came.
    since: Instant,
    /// How long a turn takes at most.
    turn: Duration,
    next_number: u64,
    /// Whether calls are not sent as one: the server wants the keys of a call in one slot, or the user wants it so.
    keeps_apart: Arc<AtomicBool>,
}

/// What is to be done after a job came.
pub(super) enum Next<D: Driver> {
    /// It waits for a turn that is under way.
    Wait,
    /// It is the first: a turn begins.
    BeginTurn,
    /// They wait no longer.
    Leave(Departure<D>),
}

impl<D: Driver> Waiting<D> {
    pub(super) fn new(turn: Duration, keeps_apart: bool) -> Self {
        Self {
            entries: Vec::new(),
            since: Instant::now(),
            turn,
            next_number: 0,
            keeps_apart: Arc::new(AtomicBool::new(keeps_apart)),
        }
    }

    /// Adds a job; returns its number, and what is to be done.
    pub(super) fn add(&mut self, job: OwnedJob, caller: Caller<D>) -> (u64, Next<D>) {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.entries.push(Entry {
            number,
            job,
            caller,
        });
        let next = match self.entries.len() {
            1 => {
                self.since = Instant::now();
                Next::BeginTurn
            }
            MOST => Next::Leave(self.take()),
            _ => self.take_overdue().map_or(Next::Wait, Next::Leave),
        };
        (number, next)
    }

    /// Takes the job of that number out, if it still waits.
    pub(super) fn remove(&mut self, number: u64) -> Option<Entry<D>> {
        let is_it = |entry: &Entry<D>| entry.number == number;
        let place = self.entries.iter().position(is_it)?;
        Some(self.entries.remove(place))
    }

    /// Takes all of them.
    pub(super) fn take(&mut self) -> Departure<D> {
        Departure::new(mem::take(&mut self.entries), Arc::clone(&self.keeps_apart))
    }

    /// Takes all of them if their turn does not come.
    pub(super) fn take_overdue(&mut self) -> Option<Departure<D>> {
        let is_overdue = !self.entries.is_empty() && self.since.elapsed() >= self.turn;
        is_overdue.then(|| self.take())
    }
}
