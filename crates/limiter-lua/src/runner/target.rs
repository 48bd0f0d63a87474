//! [`Target`]: what a client is to connect to.

use std::net::SocketAddr;

use super::Node;

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
