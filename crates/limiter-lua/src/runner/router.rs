//! [`Router`]: from a job to the link that it is sent on.

use std::sync::Arc;

use limiter_core::StoreError;

use super::cluster::Cluster;
use super::destination::Destination;
use super::link::{Link, Live};
use super::pool::Pool;
use super::{Driver, Job, Node, Redirect, Route, Servers, Settings};

/// From a job to the link that it is sent on.
#[derive(Debug)]
pub(super) enum Router<D: Driver> {
    /// Every job goes to the same server.
    Pool(Pool<D>),
    /// A job goes to the node that serves the slot of its key.
    Cluster(Cluster<D>),
}

impl<D: Driver> Router<D> {
    pub(super) fn new(driver: D, servers: Servers, settings: &Settings) -> Self {
        let (driver, timeout) = (Arc::new(driver), settings.connect_timeout);
        let destination = match servers {
            Servers::Local => Destination::local(driver, timeout),
            Servers::One(node) => Destination::node(driver, node, timeout),
            Servers::Sentinel { sentinels, master } => {
                let map = settings.address_map.clone();
                Destination::primary(driver, once_each(sentinels), master, map, timeout)
            }
            Servers::Cluster(seeds) => {
                return Self::Cluster(Cluster::new(driver, &once_each(seeds), settings.clone()));
            }
        };
        Self::Pool(Pool::new(
            &Arc::new(destination),
            settings.connections,
            settings.keeps_calls_apart,
        ))
    }

    /// Returns the link for the next attempt at a job, if it is known where to send it.
    pub(super) fn link_now(&self, job: &Job<'_>, redirect: Option<&Redirect>) -> Option<Link<D>> {
        match self {
            Self::Pool(pool) => Some(pool.pick().clone()),
            Self::Cluster(cluster) => cluster.link_now(job, redirect),
        }
    }

    /// Returns the link for the next attempt at a job; waits until it is known where to send it.
    ///
    /// # Errors
    /// [`StoreError`] if that cannot be told; nothing was sent then.
    pub(super) async fn link(
        &self,
        job: &Job<'_>,
        redirect: Option<&Redirect>,
    ) -> Result<Link<D>, StoreError> {
        match self {
            Self::Pool(pool) => Ok(pool.pick().clone()),
            Self::Cluster(cluster) => match cluster.link_now(job, redirect) {
                Some(link) => Ok(link),
                None => cluster.link(job).await,
            },
        }
    }

    /// Reads where a node that says `MOVED` or `ASK` sends a job, and notes that in its route: to a
    /// node, or, if the node cannot be told, once more by what will be known of the slots a little
    /// later. Returns whether that leads anywhere.
    pub(super) fn follow(
        &self,
        (link, live): (&Link<D>, &Live<D>),
        job: &Job<'_>,
        error: &D::Error,
        asking: bool,
        route: &mut Route,
    ) -> bool {
        let Some(node) = D::redirect(error).and_then(Node::read) else {
            return false;
        };
        let node = match self {
            // The user's own client of a cluster is told where to send; elsewhere a redirection leads nowhere.
            Self::Pool(_) if D::is_cluster(&live.connection) && !node.is_nameless() => Some(node),
            Self::Pool(_) => return false,
            Self::Cluster(cluster) => {
                let own_host = link.node().map_or("", Node::host);
                let node = cluster.find(node.or_host(own_host));
                match &node {
                    Some(node) if !asking => cluster.learn(job, node),
                    Some(_) => {}
                    None => cluster.renew(),
                }
                node
            }
        };
        route.redirect = node.map(|node| Redirect { node, asking });
        true
    }

    /// Notes that a call failed other than by a reply: its node may no longer be the one to call.
    pub(super) fn note_trouble(&self) {
        if let Self::Cluster(cluster) = self {
            cluster.renew();
        }
    }
}

/// Leaves out nodes that are named twice: each is to be asked once.
fn once_each(nodes: Vec<Node>) -> Vec<Node> {
    let mut once = Vec::with_capacity(nodes.len());
    for node in nodes {
        if !once.contains(&node) {
            once.push(node);
        }
    }
    once
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_that_is_named_twice_is_one() {
        let named = [("a", 1), ("b", 1), ("a", 1), ("a", 2)];
        let nodes = named.map(|(host, port)| Node::new(host, port)).to_vec();
        let once = [("a", 1), ("b", 1), ("a", 2)].map(|(host, port)| Node::new(host, port));
        assert_eq!(once_each(nodes), once);
    }
}
