//! [`Servers`]: which servers hold the state.

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
