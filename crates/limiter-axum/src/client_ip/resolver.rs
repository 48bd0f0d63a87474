//! [`ClientIp`]: limits by the address of the client.

use std::any::TypeId;
use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU8;

use http::{HeaderMap, HeaderName, HeaderValue};
use limiter_core::{Key, KeyResolver, RequestSource, UnresolvedKey};

use super::{TrustedProxies, address, forwarded};

/// Finds the address of the client, and limits by it.
///
/// The address is that of the socket's peer, unless the peer is a trusted proxy. Then one named
/// header is read, from the right over all its lines. What a client sends stands left of what the
/// proxies append, so nothing that it sends changes who it is. Empty elements, such as those of
/// `203.0.113.9,` and of an empty line, are ignored. Reading stops at the first entry that cannot
/// be read, such as `unknown`: the machine that wrote it counts as the client.
///
/// With [`TrustedProxies::networks`] the first entry that is not trusted is the client:
///
/// | peer | header | client |
/// |---|---|---|
/// | not trusted | anything | the peer |
/// | trusted | none, or an empty one | the peer |
/// | trusted | `198.51.100.7, 203.0.113.9, <trusted>` | `203.0.113.9` |
/// | trusted | `203.0.113.9, , <trusted>,` | `203.0.113.9` |
/// | trusted | `198.51.100.7, unknown, <trusted>` | the trusted one that wrote `unknown` |
/// | trusted | `198.51.100.7, unknown` | the peer, which wrote `unknown` |
/// | trusted | 40 trusted ones | the 32nd of them, from the right |
///
/// With [`TrustedProxies::hops`] the entry at that position from the right is the client. With 3
/// hops:
///
/// | header | client | why |
/// |---|---|---|
/// | `198.51.100.7, 203.0.113.9, <C>, <B>` | `203.0.113.9` | the third from the right; what stands left of it is not read |
/// | `unknown, 203.0.113.9, <C>, <B>` | `203.0.113.9` | the same |
/// | `203.0.113.9,, <C>`, and `<B>,` on a second line | `203.0.113.9` | empty elements are not counted |
/// | `[2001:db8::9]:4711, <C>, <B>:80` | `2001:db8::9` | ports, brackets and zones are read past |
/// | `::ffff:203.0.113.9, <C>, <B>` | `203.0.113.9` | v4-mapped addresses are made v4 |
/// | `198.51.100.7, unknown, <C>, <B>` | `<C>` | it wrote `unknown` |
/// | `203.0.113.9, unknown, <B>` | `<B>` | it wrote `unknown`, and vouches for nothing further |
/// | `203.0.113.9, <C>, unknown` | the peer | it wrote `unknown` |
/// | `198.51.100.7, 203.0.113.9` | `203.0.113.9` | too few: who came past the outer proxies wrote all but the first from the right |
/// | `203.0.113.9` | `203.0.113.9` | the same |
/// | none, or an empty one | the peer | a health check, say |
///
/// Without [`within`](TrustedProxies::within) a count believes any peer: who reaches the service
/// past all proxies is who it says. Who reaches it past some of them can write as many entries as
/// are counted. Shut these ways in the network.
///
/// | input | answer |
/// |---|---|
/// | a name that is no header name | [`InvalidClientIp::Header`] |
/// | an IPv6 prefix of 0 bits, or of more than 128 | [`InvalidClientIp::Prefix`] |
/// | a request whose peer is not known | [`UnresolvedKey::Misconfigured`] |
/// | a request with two lines of a header that holds one address, from a trusted peer | [`UnresolvedKey::Ambiguous`] |
///
/// An IPv4 address is a key of its own. IPv6 addresses share a key with all of their /64, the smallest block that a subscriber
/// gets ([`with_ipv6_prefix`](Self::with_ipv6_prefix) sets another). A v4-mapped address is the v4 address.
///
/// # Examples
/// ```
/// use limiter_axum::{ClientIp, TrustedProxies};
///
/// let direct = ClientIp::peer();
/// let proxied = ClientIp::x_forwarded_for(TrustedProxies::networks(["10.0.0.0/8"])?);
/// let by_cdn = ClientIp::header("cf-connecting-ip", TrustedProxies::networks(["192.0.2.0/24"])?)?;
/// assert!(ClientIp::header("no header", TrustedProxies::hops(1)?).is_err());
/// assert!(direct.with_ipv6_prefix(129).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientIp {
    told_by: ToldBy,
    ipv6_prefix: u8,
}

#[derive(Clone, Debug)]
enum ToldBy {
    Socket,
    XForwardedFor(TrustedProxies),
    Forwarded(TrustedProxies),
    Header(HeaderName, TrustedProxies),
}

const X_FORWARDED_FOR: &str = "x-forwarded-for";
/// No chain of proxies is that long; what claims to be costs no more than this.
const MOST_ENTRIES: usize = 32;
/// The smallest block that a subscriber gets.
const DEFAULT_IPV6_PREFIX: u8 = 64;

impl ClientIp {
    /// Takes the peer of the socket, and no header: right where clients connect directly.
    #[must_use]
    pub const fn peer() -> Self {
        Self::told_by(ToldBy::Socket)
    }

    /// Takes `X-Forwarded-For` as `proxies` wrote it.
    #[must_use]
    pub const fn x_forwarded_for(proxies: TrustedProxies) -> Self {
        Self::told_by(ToldBy::XForwardedFor(proxies))
    }

    /// Takes `Forwarded` (RFC 7239) as `proxies` wrote it.
    #[must_use]
    pub const fn forwarded(proxies: TrustedProxies) -> Self {
        Self::told_by(ToldBy::Forwarded(proxies))
    }

    /// Takes a header that holds one address, such as `CF-Connecting-IP`, as `proxies` wrote it.
    /// Two lines of it are an error; where there is none, or none that can be read, the client is
    /// the peer.
    ///
    /// # Errors
    /// [`InvalidClientIp`] if `name` is no header name.
    pub fn header(name: &str, proxies: TrustedProxies) -> Result<Self, InvalidClientIp> {
        let name = HeaderName::try_from(name).map_err(|_| InvalidClientIp::Header {
            name: name.chars().take(64).collect(),
        })?;
        Ok(Self::told_by(ToldBy::Header(name, proxies)))
    }

    const fn told_by(told_by: ToldBy) -> Self {
        Self {
            told_by,
            ipv6_prefix: DEFAULT_IPV6_PREFIX,
        }
    }

    /// Lets all IPv6 addresses with the same first `bits` share a key: 56 or 48 is stricter than the usual 64.
    ///
    /// # Errors
    /// [`InvalidClientIp`] if `bits` is 0 or more than 128.
    pub fn with_ipv6_prefix(mut self, bits: u8) -> Result<Self, InvalidClientIp> {
        if !(1..=128).contains(&bits) {
            return Err(InvalidClientIp::Prefix { bits });
        }
        self.ipv6_prefix = bits;
        Ok(self)
    }

    /// Returns the address of the client, whole.
    ///
    /// # Errors
    /// [`UnresolvedKey`] if the socket's peer is not known, or a header that names one client has several lines.
    #[inline]
    pub fn address(&self, request: &dyn RequestSource) -> Result<IpAddr, UnresolvedKey> {
        let peer = request.peer_ip().ok_or_else(no_peer)?.to_canonical();
        if matches!(self.told_by, ToldBy::Socket) {
            return Ok(peer);
        }
        self.told_by_proxies(request, peer)
    }

    fn told_by_proxies(
        &self,
        request: &dyn RequestSource,
        peer: IpAddr,
    ) -> Result<IpAddr, UnresolvedKey> {
        match &self.told_by {
            ToldBy::XForwardedFor(proxies) if proxies.trusts_peer(peer) => {
                let entries = from_the_right(request, X_FORWARDED_FOR)
                    .flat_map(|line| line.rsplit(|byte| *byte == b','))
                    .filter(is_element)
                    .map(read);
                Ok(walk(proxies, peer, entries))
            }
            ToldBy::Forwarded(proxies) if proxies.trusts_peer(peer) => {
                let entries = from_the_right(request, http::header::FORWARDED.as_str())
                    .flat_map(forwarded::elements_from_the_right)
                    .filter(is_element)
                    .map(forwarded::client_of);
                Ok(walk(proxies, peer, entries))
            }
            ToldBy::Header(name, proxies) if proxies.trusts_peer(peer) => {
                single(request, name).map(|named| named.unwrap_or(peer))
            }
            _ => Ok(peer),
        }
    }

    /// Returns the key of a client with this address: for an operator who looks for it in the
    /// store, or puts it on a list.
    ///
    /// # Examples
    /// ```
    /// use limiter_axum::{ClientIp, Key};
    ///
    /// let key = ClientIp::peer().key_of("2001:db8:1:2::9".parse()?);
    /// assert_eq!(key, Key::new("2001:db8:1:2::/64")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn key_of(&self, address: IpAddr) -> Key {
        match address.to_canonical() {
            IpAddr::V4(v4) => v4.into(),
            IpAddr::V6(v6) => key_of_v6(v6, self.ipv6_prefix),
        }
    }
}

impl KeyResolver for ClientIp {
    fn resolve(&self, request: &dyn RequestSource) -> Result<Key, UnresolvedKey> {
        // The commonest case is taken apart at once: to pass an address on costs more than all that is done with it.
        if let (ToldBy::Socket, Some(IpAddr::V4(peer))) = (&self.told_by, request.peer_ip()) {
            return Ok(peer.into());
        }
        Ok(self.key_of(self.address(request)?))
    }
}

#[cold]
fn no_peer() -> UnresolvedKey {
    UnresolvedKey::Misconfigured {
        advice: "the address of the socket's peer is not known; serve the router with \
                 `into_make_service_with_connect_info::<SocketAddr>()`, or put a `SocketAddr` into the request's extensions"
            .to_owned(),
    }
}

/// Goes from the machine nearest to us towards the client, as far as what is told can be believed.
fn walk(
    proxies: &TrustedProxies,
    peer: IpAddr,
    entries: impl Iterator<Item = Option<IpAddr>>,
) -> IpAddr {
    match proxies.hops {
        Some(hops) => walk_by_count(hops, peer, entries),
        None => walk_by_network(proxies, peer, entries),
    }
}

fn walk_by_network(
    proxies: &TrustedProxies,
    peer: IpAddr,
    entries: impl Iterator<Item = Option<IpAddr>>,
) -> IpAddr {
    let mut nearest = peer;
    for entry in entries.take(MOST_ENTRIES) {
        let Some(address) = entry else {
            return nearest;
        };
        nearest = address;
        if !proxies.contains(address) {
            return nearest;
        }
    }
    nearest
}

fn walk_by_count(
    hops: NonZeroU8,
    peer: IpAddr,
    mut entries: impl Iterator<Item = Option<IpAddr>>,
) -> IpAddr {
    let mut first = None;
    let mut nearest = peer;
    for _ in 0..hops.get() {
        match entries.next() {
            Some(Some(address)) => nearest = address,
            Some(None) => return nearest,
            // Who comes past the outer proxies writes all entries but the first: no other is sure
            // to be a proxy's word.
            None => return first.unwrap_or(peer),
        }
        first.get_or_insert(nearest);
    }
    nearest
}

/// Says whether an element of a list is there: empty ones are ignored (RFC 9110, section 5.6.1.2).
fn is_element(element: &&[u8]) -> bool {
    element.iter().any(|byte| !matches!(byte, b' ' | b'\t'))
}

/// Returns the lines of a header, the last first. Those of an HTTP request are looked at no further than they are asked for; of
/// any other the last line has to be searched for.
fn from_the_right<'a>(
    request: &'a dyn RequestSource,
    name: &'a str,
) -> impl Iterator<Item = &'a [u8]> {
    let headers = request.part(TypeId::of::<HeaderMap>());
    let headers = headers.and_then(|it| it.downcast_ref::<HeaderMap>());
    let of_http = headers.map(|headers| headers.get_all(name).iter().rev());
    let mut lines = 0;
    while headers.is_none() && request.header(name, lines).is_some() {
        lines += 1;
    }
    let of_other = (0..lines).rev();
    of_http
        .into_iter()
        .flatten()
        .map(HeaderValue::as_bytes)
        .chain(of_other.filter_map(move |line| request.header(name, line)))
}

/// Reads an entry of `X-Forwarded-For`.
fn read(entry: &[u8]) -> Option<IpAddr> {
    address::parse(std::str::from_utf8(entry).ok()?)
}

fn single(request: &dyn RequestSource, name: &HeaderName) -> Result<Option<IpAddr>, UnresolvedKey> {
    if request.header(name.as_str(), 1).is_some() {
        return Err(UnresolvedKey::Ambiguous {
            what: format!("header {name}"),
        });
    }
    Ok(request.header(name.as_str(), 0).and_then(read))
}

fn key_of_v6(address: Ipv6Addr, bits: u8) -> Key {
    let kept = u32::from(128_u8.saturating_sub(bits));
    let mask = u128::MAX.checked_shl(kept).unwrap_or(0);
    let network = Ipv6Addr::from_bits(address.to_bits() & mask);
    let mut text = Text::EMPTY;
    let _ = write!(text, "{network}/{bits}");
    // The text always fits.
    Key::new(text.as_bytes()).unwrap_or_else(|_| network.octets().into())
}

/// Room for the longest address with its prefix, so that to write one allocates nothing.
struct Text {
    bytes: [u8; MOST_TEXT],
    len: usize,
}

const MOST_TEXT: usize = 45;

impl Text {
    const EMPTY: Self = Self {
        bytes: [0; MOST_TEXT],
        len: 0,
    };

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        let place = self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// Says why addresses cannot be found as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidClientIp {
    /// A text is no header name.
    #[error("{name:?} is no header name: write one such as \"cf-connecting-ip\"")]
    Header {
        /// The text.
        name: String,
    },
    /// A prefix has no bits, or more than an address.
    #[error("IPv6 prefix of {bits} bits: take 1 to 128, such as 64 or 56")]
    Prefix {
        /// The bits asked for.
        bits: u8,
    },
}
