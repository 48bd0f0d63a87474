//! [`Member`]: a node of a cluster, with the connections to it.

use std::sync::Arc;

use super::destination::Destination;
use super::pool::Pool;
use super::{Driver, Node, Settings};

/// A node of a cluster, with the connections to it. Its clones share them.
#[derive(Debug)]
pub(super) struct Member<D: Driver> {
    pub(super) node: Node,
    pub(super) pool: Arc<Pool<D>>,
}

impl<D: Driver> Member<D> {
    /// Makes a member of a node. Nothing is connected yet.
    pub(super) fn new(driver: &Arc<D>, node: &Node, settings: &Settings) -> Self {
        let destination =
            Destination::node(Arc::clone(driver), node.clone(), settings.connect_timeout);
        // The keys of a call are in one slot: several calls are written together, but each remains
        // its own.
        let keeps_apart = true;
        let pool = Pool::new(&Arc::new(destination), settings.connections, keeps_apart);
        Self {
            node: node.clone(),
            pool: Arc::new(pool),
        }
    }
}

impl<D: Driver> Clone for Member<D> {
    fn clone(&self) -> Self {
        Self {
            node: self.node.clone(),
            pool: Arc::clone(&self.pool),
        }
    }
}
