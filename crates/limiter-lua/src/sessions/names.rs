//! [`SessionNames`]: from visitors to the names of keys on the server.

use limiter_core::Key;
use limiter_sessions::{Label, Locator, Nonce, Severity, TagKey, VisitorIp};

use crate::KeyLayout;

/// Where what is known of visitors is kept. Names hold tags alone; the braces are the hash tag of Redis Cluster. Each
/// begins with the [root](KeyLayout::root) of the layout, `<prefix>:<version>`.
///
/// | name | what |
/// |---|---|
/// | `<root>:s:{<group>}:<member>` | a session: hash |
/// | `<root>:f:{<group>}` | the sessions of a fingerprint: sorted set, in the slot of its sessions |
/// | `<root>:i:{<tag>}`, `<root>:u:{<tag>}` | the signals of an address: hash; its fingerprints: `HyperLogLog` |
/// | `<root>:n:<tag>` | a nonce that was used: string |
/// | `<root>:a:{<severity>}` | the anomalies of a severity: stream |
/// | `<root>:c:{<label>}` | the fingerprints of a cluster: sorted set |
#[derive(Clone, Copy, Debug)]
pub struct SessionNames<'a> {
    root: &'a str,
}

/// What a key holds, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionKey {
    /// A session.
    Session,
    /// The sessions of a fingerprint.
    Fingerprint,
    /// The signals of an address.
    Address,
    /// The fingerprints of an address.
    Uniques,
    /// A nonce that was used.
    Nonce,
    /// The anomalies of a severity.
    Feed,
    /// The fingerprints of a cluster.
    Cluster,
}

impl<'a> SessionNames<'a> {
    /// Takes the prefix and the version of a layout.
    #[must_use]
    pub fn new(layout: &'a KeyLayout) -> Self {
        Self {
            root: layout.root(),
        }
    }

    /// Returns the names of a session, and of the sessions of its fingerprint.
    #[must_use]
    pub fn session(self, place: &Locator) -> [Vec<u8>; 2] {
        let (group, member) = (hex(&place.group), hex(&place.member));
        let root = self.root;
        [
            format!("{root}:s:{{{group}}}:{member}").into(),
            format!("{root}:f:{{{group}}}").into(),
        ]
    }

    /// Returns the names of the signals and of the fingerprints of an address.
    #[must_use]
    pub fn address(self, tags: &TagKey, ip: VisitorIp) -> [Vec<u8>; 2] {
        let (root, tag) = (self.root, hex(&tags.ip(ip)));
        [
            format!("{root}:i:{{{tag}}}").into(),
            format!("{root}:u:{{{tag}}}").into(),
        ]
    }

    /// Returns the name of a nonce.
    #[must_use]
    pub fn nonce(self, tags: &TagKey, scope: &Key, nonce: &Nonce) -> Vec<u8> {
        let tag = hex(&tags.nonce(scope, nonce));
        format!("{}:n:{tag}", self.root).into()
    }

    /// Returns the name of the feed of a severity.
    #[must_use]
    pub fn feed(self, severity: Severity) -> Vec<u8> {
        format!("{}:a:{{{severity}}}", self.root).into()
    }

    /// Returns the name of a cluster.
    #[must_use]
    pub fn cluster(self, label: &Label) -> Vec<u8> {
        format!("{}:c:{{{label}}}", self.root).into()
    }

    /// Returns the pattern that matches all of these names and few others, as `SCAN` takes it.
    #[must_use]
    pub fn pattern(self) -> String {
        format!("{}:[sfiunac]:*", self.root)
    }

    /// Tells what a key holds; `None` if it is none of these.
    #[must_use]
    pub fn kind(self, name: &[u8]) -> Option<SessionKey> {
        let rest = name.strip_prefix(self.root.as_bytes())?;
        match rest {
            [b':', b's', b':', ..] => Some(SessionKey::Session),
            [b':', b'f', b':', ..] => Some(SessionKey::Fingerprint),
            [b':', b'i', b':', ..] => Some(SessionKey::Address),
            [b':', b'u', b':', ..] => Some(SessionKey::Uniques),
            [b':', b'n', b':', ..] => Some(SessionKey::Nonce),
            [b':', b'a', b':', ..] => Some(SessionKey::Feed),
            [b':', b'c', b':', ..] => Some(SessionKey::Cluster),
            _ => None,
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| {
        DIGITS
            .get(usize::from(half))
            .map_or('0', |&digit| digit.into())
    };
    let digits = bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    digits.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart_from_each_other_and_from_those_of_limits() {
        let layout = KeyLayout::new("shop:eu").unwrap();
        let names = SessionNames::new(&layout);
        let tags = TagKey::new([7; 32]).unwrap();
        let place = Locator {
            group: [0xab; 5],
            member: [0x01; 6],
        };
        let [session, index] = names.session(&place);
        assert_eq!(session, b"shop:eu:1:s:{ababababab}:010101010101");
        assert_eq!(index, b"shop:eu:1:f:{ababababab}");
        assert_eq!(names.feed(Severity::High), b"shop:eu:1:a:{high}");
        let label = Label::new("bots").unwrap();
        let nonce = names.nonce(&tags, &Key::from([0; 16]), &Nonce::new("n").unwrap());
        let [address, uniques] = names.address(&tags, "203.0.113.9".parse().unwrap());
        let all = [
            (session, SessionKey::Session),
            (index, SessionKey::Fingerprint),
            (address, SessionKey::Address),
            (uniques, SessionKey::Uniques),
            (nonce, SessionKey::Nonce),
            (names.feed(Severity::Low), SessionKey::Feed),
            (names.cluster(&label), SessionKey::Cluster),
        ];
        for (name, kind) in all {
            assert_eq!(names.kind(&name), Some(kind));
            assert_eq!(layout.key_bytes(&name), None);
            assert_eq!(layout.key_and_policy(&name), None);
        }
        assert_eq!(names.kind(&layout.name(&Key::from([b's'; 16]))), None);
    }
}
