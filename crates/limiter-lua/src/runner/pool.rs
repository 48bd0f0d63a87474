//! [`Pool`]: the links that a runner spreads its jobs over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Driver;
use super::link::Link;

/// The links that a runner spreads its jobs over, in turn. A link without a connection is passed over, while another has one:
/// what is broken answers fast, and would draw all jobs if the least busy were taken.
#[derive(Debug)]
pub(super) struct Pool<D: Driver> {
    first: Link<D>,
    others: Vec<Link<D>>,
    turn: AtomicUsize,
}

impl<D: Driver> Pool<D> {
    /// Makes a link of each driver, and of `first` in any case; they keep calls apart if so told.
    pub(super) fn new(
        first: Arc<D>,
        others: impl IntoIterator<Item = Arc<D>>,
        keeps_apart: bool,
    ) -> Self {
        let link = |driver| Link::new(driver, keeps_apart);
        Self {
            first: link(first),
            others: others.into_iter().map(link).collect(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Returns the link that called itself `nth` when it was picked.
    pub(super) fn get(&self, nth: usize) -> &Link<D> {
        let other = nth.checked_sub(1).and_then(|nth| self.others.get(nth));
        other.unwrap_or(&self.first)
    }

    /// Picks the link for the next job, and says which it is.
    pub(super) fn pick(&self) -> (usize, &Link<D>) {
        if self.others.is_empty() {
            return (0, &self.first);
        }
        let links = self.others.len() + 1;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % links;
        let from_turn = (turn..links).chain(0..turn);
        let ready = from_turn.map(|nth| (nth, self.get(nth)));
        let ready = ready.into_iter().find(|(_, link)| link.is_ready());
        ready.unwrap_or((turn, self.get(turn)))
    }
}
