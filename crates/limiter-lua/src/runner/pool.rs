//! [`Pool`]: the links that calls are spread over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::destination::Destination;
use super::link::Link;
use super::{Connections, Driver};

/// The links that calls are spread over, in turn. A link without a connection is passed over, while another has one: what is broken
/// answers fast, and would draw all calls if the least busy were taken.
#[derive(Debug)]
pub(super) struct Pool<D: Driver> {
    first: Link<D>,
    others: Vec<Link<D>>,
    turn: AtomicUsize,
}

impl<D: Driver> Pool<D> {
    /// Makes so many links to one destination; they keep calls apart if so told. Nothing is connected yet.
    pub(super) fn new(
        destination: &Arc<Destination<D>>,
        connections: Connections,
        keeps_apart: bool,
    ) -> Self {
        let link = || Link::new(Arc::clone(destination), keeps_apart);
        Self {
            first: link(),
            others: (1..connections.get()).map(|_| link()).collect(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Makes a link of each connection of the user's; `None` if there is none.
    pub(super) fn given(
        connections: impl IntoIterator<Item = D::Connection>,
        keeps_apart: bool,
    ) -> Option<Self> {
        let links = connections.into_iter();
        let mut links = links.map(|connection| Link::given(connection, keeps_apart));
        Some(Self {
            first: links.next()?,
            others: links.collect(),
            turn: AtomicUsize::new(0),
        })
    }

    /// Picks the link for the next call.
    pub(super) fn pick(&self) -> &Link<D> {
        if self.others.is_empty() {
            return &self.first;
        }
        let links = self.others.len() + 1;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % links;
        let mut from_turn = (turn..links).chain(0..turn).map(|nth| self.get(nth));
        from_turn
            .find(|link| link.is_ready())
            .unwrap_or_else(|| self.get(turn))
    }

    /// Returns the first of the links, for what needs no more than one.
    pub(super) const fn first(&self) -> &Link<D> {
        &self.first
    }

    /// Returns whether calls find a connection.
    pub(super) fn is_connected(&self) -> bool {
        self.links().any(|link| link.live_now().is_some())
    }

    /// Returns whether the connections are the user's.
    pub(super) fn is_given(&self) -> bool {
        self.first.is_given()
    }

    fn get(&self, nth: usize) -> &Link<D> {
        let other = nth.checked_sub(1).and_then(|nth| self.others.get(nth));
        other.unwrap_or(&self.first)
    }

    fn links(&self) -> impl Iterator<Item = &Link<D>> {
        std::iter::once(&self.first).chain(&self.others)
    }
}
