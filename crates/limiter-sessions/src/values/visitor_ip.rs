//! [`VisitorIp`]: where a visitor comes from.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The address that a visitor comes from. An IPv4 address inside of IPv6 is made IPv4, so that one visitor has one address.
///
/// `Debug` shows the family alone: an address must not reach a log.
///
/// | input | answer |
/// |---|---|
/// | `203.0.113.9`, `2001:db8::9` | the address |
/// | `::ffff:203.0.113.9` | `203.0.113.9` |
/// | `0.0.0.0`, `::`, multicast | [`InvalidIp::NoVisitor`] |
/// | ports, zones, names, leading zeros, anything else | [`InvalidIp::NoAddress`] |
///
/// # Examples
/// ```
/// use limiter_sessions::VisitorIp;
///
/// let ip: VisitorIp = "::ffff:203.0.113.9".parse()?;
/// assert_eq!((ip.get().to_string().as_str(), format!("{ip:?}").as_str()), ("203.0.113.9", "VisitorIp(v4)"));
/// assert!("203.0.113.9:80".parse::<VisitorIp>().is_err());
/// # Ok::<(), limiter_sessions::InvalidIp>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VisitorIp(IpAddr);

impl VisitorIp {
    /// Checks and keeps an address.
    ///
    /// # Errors
    /// [`InvalidIp::NoVisitor`] if nobody can come from there.
    pub const fn new(ip: IpAddr) -> Result<Self, InvalidIp> {
        let ip = ip.to_canonical();
        if ip.is_unspecified() || ip.is_multicast() {
            return Err(InvalidIp::NoVisitor);
        }
        Ok(Self(ip))
    }

    /// Returns the address.
    #[must_use]
    pub const fn get(self) -> IpAddr {
        self.0
    }
}

impl FromStr for VisitorIp {
    type Err = InvalidIp;

    fn from_str(text: &str) -> Result<Self, InvalidIp> {
        Self::new(text.parse().map_err(|_| InvalidIp::NoAddress)?)
    }
}

impl TryFrom<IpAddr> for VisitorIp {
    type Error = InvalidIp;

    fn try_from(ip: IpAddr) -> Result<Self, InvalidIp> {
        Self::new(ip)
    }
}

impl fmt::Debug for VisitorIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = if self.0.is_ipv4() { "v4" } else { "v6" };
        write!(f, "VisitorIp({family})")
    }
}

/// Says why something is no [`VisitorIp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidIp {
    /// The text is no address.
    #[error("ip is no address: write 203.0.113.9 or 2001:db8::9, without port or zone")]
    NoAddress,
    /// Nobody can come from there.
    #[error(
        "ip is unspecified or multicast: take the address of the visitor, not one of a listener"
    )]
    NoVisitor,
}
