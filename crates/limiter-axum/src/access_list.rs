//! [`AccessList`]: who is never limited, and who is never let in.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;
use limiter_core::Key;

use crate::client_ip::parse_network;

/// Addresses and keys that are never limited, or never let in.
///
/// Who is denied gets 403, also if allowed as well. Addresses are those of the layer's client
/// address, whole, not of its key. Keys are compared byte for byte with what the limit's key
/// resolver finds; where there is no limit, the layer's own resolver. What
/// [`HeaderKeyResolver`](crate::HeaderKeyResolver) finds is a hash: its `key_of`, or
/// [`Key::of_secret`], makes it. Behind a [`CompositeKeyResolver`](crate::CompositeKeyResolver) no
/// part is a key by itself: its `key_of_nth` and `key_of_all` make the key of parts.
///
/// | input | answer |
/// |---|---|
/// | a text that is no network or address: `10.0.0.0/33`, `office.internal` | [`InvalidNetwork`] |
/// | a v4-mapped network: `::ffff:10.0.0.0/104` | the v4 network, `10.0.0.0/8` |
///
/// # Examples
/// ```
/// use limiter_axum::{AccessList, CompositeKeyResolver, Key};
///
/// let leaked = Key::of_secret("leaked-api-key");
/// // The key of the same header as the second of `CompositeKeyResolver::first_of`.
/// let leaked_as_second = CompositeKeyResolver::key_of_nth(1, &leaked)?;
/// let list = AccessList::new()
///     .allow_network("10.0.0.0/8")?
///     .deny_network("203.0.113.0/24")?
///     .deny_key(leaked)
///     .deny_key(leaked_as_second);
/// assert!(list.allow_network("10.0.0.0/33").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a list does nothing until it is given to a layer"]
pub struct AccessList {
    networks: Vec<(IpNet, Access)>,
    allowed_keys: HashSet<Key>,
    denied_keys: HashSet<Key>,
}

/// What the lists say of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Never limited.
    Allowed,
    /// Never let in.
    Denied,
    /// Limited as anybody.
    Limited,
}

impl AccessList {
    /// Starts an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Never limits addresses in `network`: a CIDR block or a single address.
    ///
    /// # Errors
    /// [`InvalidNetwork`] if it cannot be read.
    pub fn allow_network(self, network: &str) -> Result<Self, InvalidNetwork> {
        self.with_network(network, Access::Allowed)
    }

    /// Never lets addresses in `network` in: a CIDR block or a single address.
    ///
    /// # Errors
    /// [`InvalidNetwork`] if it cannot be read.
    pub fn deny_network(self, network: &str) -> Result<Self, InvalidNetwork> {
        self.with_network(network, Access::Denied)
    }

    /// Never limits `key`.
    pub fn allow_key(mut self, key: Key) -> Self {
        self.allowed_keys.insert(key);
        self
    }

    /// Never lets `key` in.
    pub fn deny_key(mut self, key: Key) -> Self {
        self.denied_keys.insert(key);
        self
    }

    fn with_network(mut self, text: &str, access: Access) -> Result<Self, InvalidNetwork> {
        let network = parse_network(text).ok_or_else(|| InvalidNetwork {
            text: text.chars().take(64).collect(),
        })?;
        self.networks.push((network, access));
        Ok(self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.allowed_keys.is_empty() && self.denied_keys.is_empty()
    }

    pub(crate) fn denies_keys(&self) -> bool {
        !self.denied_keys.is_empty()
    }

    pub(crate) fn asks_for_addresses(&self) -> bool {
        !self.networks.is_empty()
    }

    pub(crate) fn of_address(&self, address: IpAddr) -> Access {
        let holds = |wanted: Access| {
            let mut of_that_kind = self.networks.iter().filter(|(_, access)| *access == wanted);
            of_that_kind.any(|(network, _)| network.contains(&address))
        };
        Access::of(holds(Access::Denied), || holds(Access::Allowed))
    }

    pub(crate) fn of_key(&self, key: &Key) -> Access {
        let holds = |keys: &HashSet<Key>| !keys.is_empty() && keys.contains(key);
        Access::of(holds(&self.denied_keys), || holds(&self.allowed_keys))
    }
}

impl Access {
    fn of(denied: bool, allowed: impl FnOnce() -> bool) -> Self {
        if denied {
            Self::Denied
        } else if allowed() {
            Self::Allowed
        } else {
            Self::Limited
        }
    }
}

/// Says that a text is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no network: write a CIDR block such as \"10.0.0.0/8\", or an address")]
pub struct InvalidNetwork {
    text: String,
}
