//! [`Servers`]: which servers hold the state, and how a connection finds one of them.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use super::Node;

/// Which servers hold the state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Servers {
    /// One server, at an address.
    One(Node),
    /// One server that the client reaches without an address, such as over a socket of Unix.
    Local,
    /// A cluster, by some of its nodes.
    Cluster(Vec<Node>),
    /// The primary that sentinels name.
    Sentinel {
        /// Some of the sentinels.
        sentinels: Vec<Node>,
        /// What they call the primary.
        master: String,
    },
}

/// What a client is to connect to.
///
/// A node comes with one of the addresses that its name has: the client connects to that address alone, and holds a certificate
/// against the name.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Target<'a> {
    /// The one server that needs no address.
    Local,
    /// A server that holds state.
    Server(&'a Node, SocketAddr),
    /// A sentinel.
    Sentinel(&'a Node, SocketAddr),
}

/// Where nodes are reached, if that is not where they say: networks that translate addresses need it.
///
/// It is asked about every node that a server names, in a list of slots, in a redirection or as a primary; never about those that
/// the user named.
#[derive(Clone, Default)]
pub struct AddressMap(Option<Arc<dyn Fn(Node) -> Node + Send + Sync>>);

impl AddressMap {
    /// Takes a function from where a node says it is to where it is reached.
    pub fn new(map: impl Fn(Node) -> Node + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(map)))
    }

    pub(super) fn reached_at(&self, node: Node) -> Node {
        match &self.0 {
            Some(map) => map(node),
            None => node,
        }
    }
}

impl fmt::Debug for AddressMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Some" } else { "None" })
    }
}
