//! [`Route`]: where and how a job is to be sent.

use super::Node;

/// Where and how a job is to be sent.
#[derive(Clone, Debug, Default)]
pub struct Route {
    /// Send the whole script: the server does not have it.
    pub with_text: bool,
    /// The node to send to, if it is not the one that serves the key by what is known.
    pub redirect: Option<Redirect>,
}

impl Route {
    /// How a job is sent at first: by the script's name, to where its key is.
    pub const FIRST: Self = Self {
        with_text: false,
        redirect: None,
    };

    /// Sends to `node`, whatever the key.
    #[must_use]
    pub const fn to_node(node: Node) -> Self {
        Self {
            with_text: false,
            redirect: Some(Redirect {
                node,
                asking: false,
            }),
        }
    }
}

/// The node that another named instead of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The node.
    pub node: Node,
    /// Whether to send `ASKING` first: the slot is on its way there.
    pub asking: bool,
}
