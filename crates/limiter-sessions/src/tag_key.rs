//! [`TagKey`]: the secret that turns addresses, fingerprints and nonces into names that tell nothing.

use std::fmt;
use std::net::IpAddr;

use hmac::{Hmac, Mac};
use limiter_core::Key;
use sha2::Sha256;

use crate::{Fingerprint, Nonce, SessionId, Visit, VisitorIp};

/// The secret that turns addresses, fingerprints and nonces into tags: HMAC-SHA-256, so that nothing can be told from a name
/// on a server, and nobody can make names collide.
///
/// All nodes that share a store share the secret. With another secret everything starts afresh. `Debug` does not show it.
///
/// # Session ids
/// An id is a UUID of version 8. Its first 5 bytes are of the fingerprint's tag, so that the sessions of one fingerprint
/// are kept together; the next 42 bits are of the tag of fingerprint and address together; its last 5 bytes are drawn anew
/// for every session. So an id says where its session is kept, and that of an ended one fits no later session.
///
/// # Examples
/// ```
/// use limiter_sessions::{TagKey, Visit};
///
/// let tags = TagKey::new("0123456789abcdef0123456789abcdef")?;
/// let visit = Visit::new("ab".repeat(32).parse()?, "203.0.113.9".parse()?);
/// let place = tags.visit(&visit).locator;
/// let (first, later) = (tags.session_id(&place, 1), tags.session_id(&place, 2));
/// assert_ne!(first, later);
/// assert_eq!((TagKey::locator(&first), TagKey::locator(&later)), (place, place));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TagKey(Hmac<Sha256>);

/// Where the session of a fingerprint and an address is kept: what all their [`SessionId`]s have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Locator {
    /// What it shares with all sessions of the fingerprint.
    pub group: [u8; 5],
    /// What it has of its own.
    pub member: [u8; 6],
}

/// The tags of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitTags {
    /// The tag of its fingerprint.
    pub fingerprint: [u8; 16],
    /// Where its session is kept.
    pub locator: Locator,
}

/// What is tagged: the same bytes have another tag as another thing.
#[derive(Clone, Copy)]
enum Kind {
    Fingerprint = 1,
    Ip = 2,
    Pair = 3,
    Draw = 4,
    Nonce = 5,
    Rate = 6,
}

impl TagKey {
    /// The shortest secret, in bytes.
    pub const MIN_LEN: usize = 16;

    /// Takes a secret: at least 16 bytes that nobody can guess.
    ///
    /// # Errors
    /// [`WeakSecret`] if it is shorter.
    pub fn new(secret: impl AsRef<[u8]>) -> Result<Self, WeakSecret> {
        let secret = secret.as_ref();
        let weak = WeakSecret { len: secret.len() };
        if secret.len() < Self::MIN_LEN {
            return Err(weak);
        }
        Hmac::new_from_slice(secret).map(Self).map_err(|_| weak)
    }

    /// Returns the tag of a fingerprint. Its first 5 bytes are the group of its sessions.
    #[must_use]
    pub fn fingerprint(&self, fingerprint: &Fingerprint) -> [u8; 16] {
        self.tag(Kind::Fingerprint, &[fingerprint.as_bytes()])
    }

    /// Returns the tag of an address.
    #[must_use]
    pub fn ip(&self, ip: VisitorIp) -> [u8; 16] {
        with_octets(ip, |octets| self.tag(Kind::Ip, &[octets]))
    }

    /// Returns the tag of a nonce within its scope.
    #[must_use]
    pub fn nonce(&self, scope: &Key, nonce: &Nonce) -> [u8; 16] {
        // The nonce has no zero byte, so that scope and nonce have one way to be read.
        let parts: [&[u8]; 3] = [nonce.as_str().as_bytes(), &[0], scope.as_bytes()];
        self.tag(Kind::Nonce, &parts)
    }

    /// Returns a key for a rate limiter that stands for an address and does not show it; of IPv6 for its /64, which one
    /// customer has as a whole.
    #[must_use]
    pub fn rate_key(&self, ip: VisitorIp) -> Key {
        Key::from(match ip.get() {
            IpAddr::V4(ip) => self.tag(Kind::Rate, &[&ip.octets()]),
            IpAddr::V6(ip) => self.tag(Kind::Rate, &[&cut::<8>(&ip.octets(), 0)]),
        })
    }

    /// Returns the tags of a visit: of its fingerprint, and of where its session is kept.
    #[must_use]
    pub fn visit(&self, visit: &Visit) -> VisitTags {
        let fingerprint = self.fingerprint(&visit.fingerprint);
        let pair = with_octets(visit.ip, |octets| {
            self.tag(Kind::Pair, &[visit.fingerprint.as_bytes(), octets])
        });
        let mut member: [u8; 6] = cut(&pair, 0);
        let [_, version, _, variant, ..] = &mut member;
        *version = *version & 0x0f | 0x80;
        *variant = *variant & 0x3f | 0x80;
        let group = cut(&fingerprint, 0);
        VisitTags {
            fingerprint,
            locator: Locator { group, member },
        }
    }

    /// Makes the id of a session that is kept at `locator`. `draw` has to differ from session to session: any evenly
    /// distributed random number will do, the secret makes it unguessable.
    #[must_use]
    pub fn session_id(&self, locator: &Locator, draw: u64) -> SessionId {
        let Locator { group, member } = locator;
        let own = self.tag(Kind::Draw, &[group, member, &draw.to_be_bytes()]);
        let own: [u8; 5] = cut(&own, 0);
        let id = cut(&[&group[..], member, &own].concat(), 0);
        SessionId::from_bytes(id)
    }

    /// Returns a place among the sessions of the fingerprint with this tag.
    #[must_use]
    pub fn group(fingerprint: &[u8; 16]) -> Locator {
        Locator {
            group: cut(fingerprint, 0),
            member: [0; 6],
        }
    }

    /// Returns where the session called `id` is kept.
    #[must_use]
    pub fn locator(id: &SessionId) -> Locator {
        Locator {
            group: cut(id.as_bytes(), 0),
            member: cut(id.as_bytes(), 5),
        }
    }

    fn tag(&self, kind: Kind, parts: &[&[u8]]) -> [u8; 16] {
        let mut mac = self.0.clone();
        mac.update(&[kind as u8]);
        for part in parts {
            mac.update(part);
        }
        let whole: [u8; 32] = mac.finalize().into_bytes().into();
        cut(&whole, 0)
    }
}

/// Returns `N` of `bytes` from `at` on.
fn cut<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|nth| bytes.get(at + nth).copied().unwrap_or_default())
}

/// 64 bytes that nobody can guess are always a good secret.
impl From<[u8; 64]> for TagKey {
    fn from(secret: [u8; 64]) -> Self {
        Self(Hmac::new(&secret.into()))
    }
}

fn with_octets<R>(ip: VisitorIp, run: impl FnOnce(&[u8]) -> R) -> R {
    match ip.get() {
        IpAddr::V4(ip) => run(&ip.octets()),
        IpAddr::V6(ip) => run(&ip.octets()),
    }
}

impl fmt::Debug for TagKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TagKey(..)")
    }
}

/// Says that a secret is too short to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "secret has {len} bytes: take at least {} that nobody can guess",
    TagKey::MIN_LEN
)]
pub struct WeakSecret {
    len: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tags() -> TagKey {
        TagKey::new([7; 32]).unwrap()
    }

    #[test]
    fn short_secrets_are_refused() {
        assert_eq!(TagKey::new([1; 15]).unwrap_err(), WeakSecret { len: 15 });
        assert!(TagKey::new([1; 16]).is_ok());
    }

    #[test]
    fn other_secrets_give_other_tags() {
        let other = TagKey::new([8; 32]).unwrap();
        let ip = "203.0.113.9".parse().unwrap();
        assert_ne!(tags().ip(ip), other.ip(ip));
    }

    #[test]
    fn rates_are_of_an_ipv4_address_or_of_a_slash_64() {
        let key = |ip: &str| tags().rate_key(ip.parse().unwrap());
        assert_eq!(key("2001:db8:0:1::1"), key("2001:db8:0:1:ffff::2"));
        assert_ne!(key("2001:db8:0:1::1"), key("2001:db8:0:2::1"));
        assert_ne!(key("203.0.113.9"), key("203.0.113.8"));
        assert_eq!(key("203.0.113.9"), key("::ffff:203.0.113.9"));
    }

    #[test]
    fn scope_and_nonce_are_told_apart() {
        let tag = |scope: &str, nonce| {
            tags().nonce(&Key::new(scope).unwrap(), &Nonce::new(nonce).unwrap())
        };
        assert_eq!(tag("a", "1"), tag("a", "1"));
        assert_ne!(tag("a", "1"), tag("b", "1"));
        assert_ne!(tag("ab", "c"), tag("b", "ca"));
        assert_ne!(tag("\0a", "1"), tag("a", "1-"));
    }

    proptest! {
        #[test]
        fn prop_ids_are_uuids_of_version_8_that_locate_their_pair(fp: [u8; 32], ip: [u8; 4], a: u64, b: u64) {
            let Ok(ip) = VisitorIp::new(ip.into()) else { return Ok(()) };
            let visit = Visit::new(Fingerprint::from_bytes(fp), ip);
            let VisitTags { fingerprint, locator } = tags().visit(&visit);
            let (one, other) = (tags().session_id(&locator, a), tags().session_id(&locator, b));
            prop_assert_eq!([TagKey::locator(&one), TagKey::locator(&other)], [locator; 2]);
            prop_assert_eq!(one == other, a == b);
            prop_assert_eq!(&one.to_string()[14..15], "8");
            prop_assert!("89ab".contains(&one.to_string()[19..20]));
            prop_assert_eq!(&locator.group[..], &fingerprint[..5]);
        }
    }
}
