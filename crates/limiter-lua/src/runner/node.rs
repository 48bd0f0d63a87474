//! [`Node`]: where a server listens.

use std::fmt;

/// Where a server listens: a host, by its name or its address, and a port.
///
/// # Examples
/// ```
/// use limiter_lua::Node;
///
/// let node = Node::read("[::1]:7000").ok_or("no node")?;
/// assert_eq!((node.host(), node.port()), ("::1", 7000));
/// assert_eq!(node.to_string(), "[::1]:7000");
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    host: String,
    port: u16,
}

impl Node {
    /// What servers call a node that was told to give its name and has none.
    pub(super) const NAMELESS: &str = "?";

    /// Takes a host and a port.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        let host = host.into();
        Self { host, port }
    }

    /// Reads `host:port`, as users and servers write it. An IPv6 address may be in brackets.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port
            .parse()
            .ok()
            .filter(|_| port.bytes().all(|byte| byte.is_ascii_digit()))?;
        let in_brackets = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        Some(Self::new(in_brackets.unwrap_or(host), port))
    }

    /// Returns the host.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns whether servers say that they cannot tell the host.
    pub(super) fn is_nameless(&self) -> bool {
        self.host == Self::NAMELESS
    }

    /// Returns the same port of `host` if this node has no host: servers leave out their own.
    pub(super) fn or_host(mut self, host: &str) -> Self {
        if self.host.is_empty() {
            host.clone_into(&mut self.host);
        }
        self
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        for (text, host, port) in [
            ("10.0.0.1:6379", "10.0.0.1", 6379),
            ("cache.local:7000", "cache.local", 7000),
            ("::1:7000", "::1", 7000),
            ("[2001:db8::1]:1", "2001:db8::1", 1),
            (":7000", "", 7000),
        ] {
            assert_eq!(Node::read(text), Some(Node::new(host, port)), "{text}");
        }
        for text in ["", "host", "host:", "host:port", "host:65536", "host:+1"] {
            assert_eq!(Node::read(text), None, "{text}");
        }
        let own = Node::new("", 7000).or_host("10.0.0.1");
        assert_eq!(own.to_string(), "10.0.0.1:7000");
    }
}
