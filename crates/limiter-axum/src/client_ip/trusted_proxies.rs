//! [`TrustedProxies`]: whose word about the client is taken.

use std::net::IpAddr;
use std::num::NonZeroU8;

use ipnet::IpNet;

/// The proxies in front of the service, whose word about the client is taken.
///
/// Name them by their networks wherever you can: then a peer that is none of them is simply itself. Where their addresses are
/// not known, say how many there are; then the service must not be reachable past them, for any peer is believed: who connects
/// directly chooses its address, and with it its key.
///
/// | input | answer |
/// |---|---|
/// | no network | [`InvalidProxies::NoNetworks`] |
/// | a text that is no network or address: `10.0.0.0/33`, `proxy.internal` | [`InvalidProxies::Network`] |
/// | 0 hops | [`InvalidProxies::NoHops`] |
/// | a v4-mapped network: `::ffff:10.0.0.0/104` | the v4 network, `10.0.0.0/8` |
///
/// # Examples
/// ```
/// use limiter_axum::{InvalidProxies, TrustedProxies};
///
/// let by_network = TrustedProxies::networks(["10.0.0.0/8", "fd00::/8", "192.0.2.1"])?;
/// let by_count = TrustedProxies::hops(2)?;
/// let both = TrustedProxies::hops(2)?.within(["10.0.0.0/8"])?;
/// assert!(TrustedProxies::networks(["10.0.0.0/33"]).is_err());
/// assert_eq!(TrustedProxies::hops(0), Err(InvalidProxies::NoHops));
/// # Ok::<(), InvalidProxies>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedProxies {
    /// Empty: any peer.
    networks: Vec<IpNet>,
    pub(super) hops: Option<NonZeroU8>,
}

impl TrustedProxies {
    /// Trusts every machine in `networks`: CIDR blocks or single addresses.
    ///
    /// The client is the first machine, from the right, that is in none of them.
    ///
    /// # Errors
    /// [`InvalidProxies`] if there is none, or one cannot be read.
    pub fn networks<'a>(
        networks: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, InvalidProxies> {
        Ok(Self {
            networks: parse_networks(networks)?,
            hops: None,
        })
    }

    /// Trusts the peer and those before it, `count` proxies in all: the client is the entry that
    /// many from the right. [`ClientIp`](crate::ClientIp) has a table of what happens where there
    /// are fewer, or where one cannot be read.
    ///
    /// Any peer is believed: who reaches the service past the proxies writes the entry itself. Shut that way in the network, or say
    /// [`within`](Self::within) where the proxies are.
    ///
    /// # Errors
    /// [`InvalidProxies`] if `count` is 0.
    pub fn hops(count: u8) -> Result<Self, InvalidProxies> {
        let hops = NonZeroU8::new(count).ok_or(InvalidProxies::NoHops)?;
        Ok(Self {
            networks: Vec::new(),
            hops: Some(hops),
        })
    }

    /// Believes only peers in `networks`; any other peer is the client itself.
    ///
    /// # Errors
    /// [`InvalidProxies`] if there is none, or one cannot be read.
    pub fn within<'a>(
        mut self,
        networks: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, InvalidProxies> {
        self.networks = parse_networks(networks)?;
        Ok(self)
    }

    /// Says whether what `peer` tells is believed.
    pub(super) fn trusts_peer(&self, peer: IpAddr) -> bool {
        (self.networks.is_empty() && self.hops.is_some()) || self.contains(peer)
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.networks
            .iter()
            .any(|network| network.contains(&address))
    }
}

fn parse_networks<'a>(
    networks: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<IpNet>, InvalidProxies> {
    let parsed: Vec<_> = networks
        .into_iter()
        .map(|text| parse_network(text).ok_or_else(|| InvalidProxies::network(text)))
        .collect::<Result<_, _>>()?;
    if parsed.is_empty() {
        return Err(InvalidProxies::NoNetworks);
    }
    Ok(parsed)
}

/// Reads a CIDR block or a single address; what is v4-mapped is made v4.
pub(crate) fn parse_network(text: &str) -> Option<IpNet> {
    let network = match text.parse::<IpNet>() {
        Ok(network) => network,
        Err(_) => IpNet::from(text.parse::<IpAddr>().ok()?),
    };
    let IpNet::V6(v6) = network else {
        return Some(network);
    };
    match (v6.addr().to_ipv4_mapped(), v6.prefix_len().checked_sub(96)) {
        (Some(v4), Some(prefix)) => IpNet::new(v4.into(), prefix).ok(),
        _ => Some(network),
    }
}

/// Says why proxies cannot be trusted as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidProxies {
    /// No network was named.
    #[error("no network is named: name the networks of your proxies, such as \"10.0.0.0/8\"")]
    NoNetworks,
    /// No proxy was counted.
    #[error("0 hops are trusted: there is at least 1 proxy, or take the socket's peer")]
    NoHops,
    /// A text is no network.
    #[error("{text:?} is no network: write a CIDR block such as \"10.0.0.0/8\", or an address")]
    Network {
        /// The text.
        text: String,
    },
}

impl InvalidProxies {
    fn network(text: &str) -> Self {
        Self::Network {
            text: text.chars().take(64).collect(),
        }
    }
}
