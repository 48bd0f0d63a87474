//! [`Key`]: who is limited.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::Ipv4Addr;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::dotted::Dotted;

/// Who is limited, after resolving: 1 to 255 bytes of any value.
///
/// A key is checked once, here, and never again. Two keys are the same identity only if they are the same bytes. Keys of
/// up to 24 bytes are kept inline, so making one allocates nothing.
///
/// `Debug` shows the length alone: a key is often an address or a user name, and must not reach a
/// log. A store keeps the bytes as they are, so a secret is no key: [`Key::of_secret`] makes one
/// that stands for it.
///
/// | input | answer |
/// |---|---|
/// | empty | [`InvalidKey::Empty`] |
/// | 1 to 255 bytes | the key, byte for byte |
/// | 256 bytes or more | [`InvalidKey::TooLong`] |
///
/// # Examples
/// ```
/// use limiter_core::{InvalidKey, Key};
///
/// let key = Key::new("user:42")?;
/// assert_eq!(key.as_bytes(), b"user:42");
/// assert_eq!(format!("{key:?}"), "Key(7 bytes)");
/// assert_eq!(Key::new(""), Err(InvalidKey::Empty));
/// # Ok::<(), InvalidKey>(())
/// ```
#[derive(Clone)]
pub struct Key(Repr);

/// The longest address of version 6 with a prefix of /64 fits.
const INLINE_MAX: usize = 24;

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: Inline },
    Shared(Arc<[u8]>),
}

/// In whole words of memory: a key is moved and read by the word, and a processor waits for words that were stored in pieces.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Inline([u8; INLINE_MAX]);

impl Key {
    /// The longest key, in bytes.
    pub const MAX_LEN: usize = 255;

    /// Checks and keeps `bytes`.
    ///
    /// # Errors
    /// [`InvalidKey`] if `bytes` is empty or longer than [`Key::MAX_LEN`].
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, InvalidKey> {
        let bytes = bytes.as_ref();
        match bytes.len() {
            0 => Err(InvalidKey::Empty),
            len if len > Self::MAX_LEN => Err(InvalidKey::TooLong { len }),
            len => Ok(Self(Repr::new(bytes, len))),
        }
    }

    /// Returns the key that stands for a secret, such as an API key: the first 128 bits of its
    /// SHA-256 hash.
    ///
    /// It is written in hexadecimal digits, as `printf %s "$SECRET" | sha256sum | head -c 32`
    /// prints them. Who reads the store finds no secret that nobody can guess, such as 16 random
    /// bytes. What can be guessed, such as a short code or an e-mail address, is found by hashing
    /// all guesses; it takes a hash with a secret of its own, as `HmacKeyResolver` of
    /// `limiter-axum`.
    ///
    /// # Examples
    /// ```
    /// use limiter_core::Key;
    ///
    /// let key = Key::of_secret("sk-live-4711");
    /// assert_eq!(key.as_bytes(), b"e4bbaec69cc35659a01660700fafae97");
    /// ```
    #[must_use]
    pub fn of_secret(secret: impl AsRef<[u8]>) -> Self {
        let hash: [u8; 32] = Sha256::digest(secret).into();
        Self::of_hash(hash.first_chunk().copied().unwrap_or_default())
    }

    /// Returns the key that is a hash, in 32 hexadecimal digits.
    ///
    /// # Examples
    /// ```
    /// use limiter_core::Key;
    ///
    /// assert_eq!(Key::of_hash([0xa7; 16]).as_bytes(), b"a7".repeat(16));
    /// ```
    #[must_use]
    pub fn of_hash(hash: [u8; 16]) -> Self {
        let digits = format!("{:032x}", u128::from_be_bytes(hash));
        Self(Repr::new(digits.as_bytes(), digits.len()))
    }

    /// Returns the bytes that the key was made of.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => {
                let Inline(bytes) = bytes;
                bytes.get(..usize::from(*len)).unwrap_or(bytes)
            }
            Repr::Shared(bytes) => bytes,
        }
    }
}

impl Repr {
    #[inline]
    fn new(bytes: &[u8], len: usize) -> Self {
        let mut inline = [0; INLINE_MAX];
        match (inline.get_mut(..len), u8::try_from(len)) {
            (Some(place), Ok(len)) => {
                place.copy_from_slice(bytes);
                Self::Inline {
                    len,
                    bytes: Inline(inline),
                }
            }
            _ => Self::Shared(bytes.into()),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bytes)", self.as_bytes().len())
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl TryFrom<&str> for Key {
    type Error = InvalidKey;

    fn try_from(text: &str) -> Result<Self, InvalidKey> {
        Self::new(text)
    }
}

/// Sixteen bytes, such as a tag, are always a key.
impl From<[u8; 16]> for Key {
    fn from(bytes: [u8; 16]) -> Self {
        Self(Repr::new(&bytes, bytes.len()))
    }
}

/// An address of version 4, as it is usually written, is always a key.
impl From<Ipv4Addr> for Key {
    #[inline]
    fn from(address: Ipv4Addr) -> Self {
        let text = Dotted::new(address);
        let mut bytes = [0; INLINE_MAX];
        if let Some(place) = bytes.first_chunk_mut() {
            *place = text.bytes;
        }
        Self(Repr::Inline {
            len: text.len,
            bytes: Inline(bytes),
        })
    }
}

impl std::str::FromStr for Key {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        Self::new(text)
    }
}

/// Says why bytes are no [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidKey {
    /// There were no bytes.
    #[error("key is empty: a key has 1 to {} bytes", Key::MAX_LEN)]
    Empty,
    /// There were too many bytes.
    #[error(
        "key has {len} bytes: a key has 1 to {}; hash longer identities first",
        Key::MAX_LEN
    )]
    TooLong {
        /// How many bytes there were.
        len: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_at_the_edges_are_refused_or_kept() {
        assert_eq!(Key::new([]), Err(InvalidKey::Empty));
        for len in [1, 23, 24, 25, 254, 255] {
            assert_eq!(Key::new(vec![7; len]).unwrap().as_bytes(), vec![7; len]);
        }
        assert_eq!(Key::new([7; 256]), Err(InvalidKey::TooLong { len: 256 }));
        assert_eq!(Key::from([7; 16]), Key::new([7; 16]).unwrap());
    }

    #[test]
    fn debug_does_not_show_the_bytes() {
        assert_eq!(
            format!("{:?}", Key::new("203.0.113.9").unwrap()),
            "Key(11 bytes)"
        );
    }

    /// The hashes of FIPS 180-2, as every tool has them.
    #[test]
    fn a_secret_stands_as_the_start_of_its_hash() {
        let long = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        for (secret, expected) in [
            ("", "e3b0c44298fc1c149afbf4c8996fb924"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223"),
            (long, "248d6a61d20638b8e5c026930c3e6039"),
        ] {
            assert_eq!(Key::of_secret(secret), Key::new(expected).unwrap());
        }
        assert_eq!(Key::of_secret("x".repeat(9000)).as_bytes().len(), 32);
        let hash = std::array::from_fn(|nth| u8::try_from(nth * 17).unwrap());
        let digits = "00112233445566778899aabbccddeeff";
        assert_eq!(Key::of_hash(hash), Key::new(digits).unwrap());
        assert_eq!(Key::of_hash([0; 16]).as_bytes(), [b'0'; 32]);
    }

    proptest! {
        #[test]
        fn prop_an_address_of_version_4_is_the_key_of_its_text(bits: u32) {
            let address = Ipv4Addr::from_bits(bits);
            prop_assert_eq!(Key::from(address), Key::new(address.to_string()).unwrap());
        }

        #[test]
        fn prop_equal_keys_are_equal_bytes(a: Vec<u8>, b: Vec<u8>) {
            if let (Ok(key_a), Ok(key_b)) = (Key::new(&a), Key::new(&b)) {
                prop_assert_eq!(key_a == key_b, a == b);
                prop_assert_eq!(key_a.as_bytes(), a);
            }
        }
    }
}
