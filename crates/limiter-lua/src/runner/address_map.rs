//! [`AddressMap`]: where nodes are reached that servers name.

use std::fmt;
use std::sync::Arc;

use super::Node;

/// Where nodes are reached, if that is not where they say: networks that translate addresses need it.
///
/// It is asked about every node that a server names, in a list of slots, in a redirection or as a primary; never about those that
/// the user named. Where a server leaves its host out, the host is the one at which it was reached.
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
