//! [`KeyLayout`]: from a key to the name of its hash on the server.

use limiter_core::{Key, PlanName};

use crate::escaped::{escape, unescape};

/// Where an identity's state is kept: `<prefix>:<version>:{<encoded key>}`.
///
/// The version is that of the layout: of names and of all bytes under them. A release that changes either has another
/// version. So two releases side by side on one store never read each other's bytes, and admit at most twice the limit.
///
/// The braces are the hash tag of Redis Cluster and are written by the layout alone. The key's bytes are encoded one to
/// one: letters, digits and `-._~@/=+` stand for themselves, every other byte is `%` and two hexadecimal digits. Where
/// that would be longer than 342 characters, the whole key is `%%` and its base64 in the URL-safe alphabet. So two keys
/// never share a name, and no name holds a control byte, a space, a colon or a brace of the user's.
///
/// | prefix | answer |
/// |---|---|
/// | `rl`, `shop:eu-1` | the layout |
/// | empty, more than 64 bytes, braces, spaces, `*`, `?`, `[`, `]`, control or non-ASCII characters | [`InvalidPrefix`] |
///
/// # Examples
/// ```
/// use limiter_core::Key;
/// use limiter_lua::KeyLayout;
///
/// let layout = KeyLayout::new("rl")?;
/// let name = layout.name(&Key::new("user:4{2}")?);
/// assert_eq!(name, b"rl:1:{user%3A4%7B2%7D}");
/// assert_eq!(layout.key_bytes(&name).as_deref(), Some(&b"user:4{2}"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLayout {
    prefix: String,
    /// What all names begin with: prefix and version.
    root: String,
}

const PREFIX_MAX_LEN: usize = 64;

impl KeyLayout {
    /// The prefix that stores use if none is named.
    pub const DEFAULT_PREFIX: &'static str = "rl";
    /// The version of the layout. Whoever changes a name, or the bytes that a script writes, raises it.
    pub const VERSION: u8 = 1;

    /// Checks and keeps a prefix.
    ///
    /// # Errors
    /// [`InvalidPrefix`] if it is not 1 to 64 visible ASCII characters, or holds one with a meaning in patterns or tags.
    pub fn new(prefix: impl Into<String>) -> Result<Self, InvalidPrefix> {
        let prefix = prefix.into();
        let sound = (1..=PREFIX_MAX_LEN).contains(&prefix.len())
            && prefix
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && !b"{}*?[]\\".contains(&byte));
        if sound {
            Ok(Self::of_version(prefix, Self::VERSION))
        } else {
            Err(InvalidPrefix { prefix })
        }
    }

    fn of_version(prefix: String, version: u8) -> Self {
        let root = format!("{prefix}:{version}");
        Self { prefix, root }
    }

    /// Returns the layout that a release with another version would have: for tests of releases side by side.
    #[doc(hidden)]
    #[must_use]
    pub fn with_version(self, version: u8) -> Self {
        Self::of_version(self.prefix, version)
    }

    /// Returns the prefix.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns what all names of this layout begin with: `<prefix>:<version>`.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Returns the pattern that matches the names of all identities of this layout, as `SCAN` takes it.
    #[must_use]
    pub fn pattern(&self) -> String {
        format!("{}:{{*}}", self.root)
    }

    /// Returns the name of the hash that keeps what is known of `key`.
    #[must_use]
    pub fn name(&self, key: &Key) -> Vec<u8> {
        let bytes = key.as_bytes();
        let mut name = Vec::with_capacity(self.root.len() + bytes.len() + 3);
        name.extend_from_slice(self.root.as_bytes());
        name.extend_from_slice(b":{");
        escape(bytes, &mut name);
        name.push(b'}');
        name
    }

    /// Returns the name of the hash that keeps the attempts of `key` under the abuse policy called `policy`:
    /// `<prefix>:<version>:{<encoded key>}:<policy>`, the policy in lower case. It lies in the same slot as [`name`](Self::name), and
    /// is the name of no identity: those end with a brace.
    #[must_use]
    pub fn name_under(&self, key: &Key, policy: &PlanName) -> Vec<u8> {
        let mut name = self.name(key);
        name.push(b':');
        name.extend(
            policy
                .as_str()
                .bytes()
                .map(|byte| byte.to_ascii_lowercase()),
        );
        name
    }

    /// Returns the pattern that matches the names of all attempts of this layout, as `SCAN` takes it.
    #[must_use]
    pub fn attempts_pattern(&self) -> String {
        format!("{}:{{*}}:*", self.root)
    }

    /// Returns the bytes of the key and the policy whose attempts are called `name`; `None` if this layout makes no such
    /// name.
    #[must_use]
    pub fn key_and_policy(&self, name: &[u8]) -> Option<(Vec<u8>, PlanName)> {
        let colon = name.iter().rposition(|byte| *byte == b':')?;
        let (hash, policy) = name.split_at_checked(colon)?;
        let policy = std::str::from_utf8(policy.strip_prefix(b":")?).ok()?;
        Some((self.key_bytes(hash)?, PlanName::new(policy).ok()?))
    }

    /// Returns the bytes of the key whose hash is called `name`; `None` if this layout makes no such name.
    #[must_use]
    pub fn key_bytes(&self, name: &[u8]) -> Option<Vec<u8>> {
        let encoded = name
            .strip_prefix(self.root.as_bytes())?
            .strip_prefix(b":{")?
            .strip_suffix(b"}")?;
        unescape(encoded)
    }
}

impl Default for KeyLayout {
    fn default() -> Self {
        Self::of_version(Self::DEFAULT_PREFIX.to_owned(), Self::VERSION)
    }
}

/// Says that a text is no prefix for keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "prefix {prefix:?} is not allowed: a prefix is 1 to {PREFIX_MAX_LEN} visible ASCII characters other than {{ }} * ? [ ] \\"
)]
pub struct InvalidPrefix {
    prefix: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn prefixes_with_a_meaning_elsewhere_are_refused() {
        for prefix in [
            "",
            "a b",
            "{a}",
            "a*",
            "a?",
            "[a]",
            "grö",
            "a\n",
            &"x".repeat(65),
        ] {
            assert!(KeyLayout::new(prefix).is_err(), "{prefix:?} was accepted");
        }
        for prefix in ["rl", "shop:eu-1", &"x".repeat(64)] {
            assert_eq!(KeyLayout::new(prefix).unwrap().prefix(), prefix);
        }
    }

    #[test]
    fn attempts_have_names_of_their_own() {
        let layout = KeyLayout::new("shop:eu").unwrap();
        let (key, policy) = (Key::new("a:{b}").unwrap(), PlanName::new("Login").unwrap());
        let name = layout.name_under(&key, &policy);
        assert_eq!(name, b"shop:eu:1:{a%3A%7Bb%7D}:login");
        assert_eq!(layout.key_bytes(&name), None);
        assert_eq!(layout.key_and_policy(&layout.name(&key)), None);
        assert_eq!(
            layout.key_and_policy(&name),
            Some((b"a:{b}".to_vec(), policy))
        );
    }

    #[test]
    fn layouts_of_two_versions_know_no_name_of_each_other() {
        let ours = KeyLayout::new("rl").unwrap();
        let next = ours.clone().with_version(2);
        let prefixed = KeyLayout::new("rl:1").unwrap();
        let (key, policy) = (Key::new("ann").unwrap(), PlanName::new("login").unwrap());
        assert_eq!(ours.name(&key), b"rl:1:{ann}");
        assert_eq!(next.name(&key), b"rl:2:{ann}");
        for (layout, others) in [
            (&ours, [&next, &prefixed]),
            (&next, [&ours, &prefixed]),
            (&prefixed, [&ours, &next]),
        ] {
            for other in others {
                assert_eq!(other.key_bytes(&layout.name(&key)), None);
                let attempts = layout.name_under(&key, &policy);
                assert_eq!(other.key_and_policy(&attempts), None);
            }
        }
    }

    proptest! {
        #[test]
        fn prop_names_read_back_as_their_keys(bytes in prop::collection::vec(any::<u8>(), 1..=255)) {
            let layout = KeyLayout::default();
            let name = layout.name(&Key::new(&bytes).unwrap());
            prop_assert_eq!(layout.key_bytes(&name), Some(bytes));
            let inner = &name[6..name.len() - 1];
            let tame = inner.iter().all(|byte| byte.is_ascii_graphic() && !b":{}".contains(byte));
            prop_assert!(tame && inner.len() <= 342);
        }

        #[test]
        fn prop_distinct_keys_have_distinct_names(a in "[%:{}0-9A-Fa]{1,4}", b in "[%:{}0-9A-Fa]{1,4}") {
            let layout = KeyLayout::default();
            let (key_a, key_b) = (Key::new(&a).unwrap(), Key::new(&b).unwrap());
            prop_assert_eq!(layout.name(&key_a) == layout.name(&key_b), a == b);
        }
    }
}
