//! [`Fingerprint`]: what a visitor's browser looks like.

use std::fmt;
use std::str::FromStr;

/// The hash of what a visitor's browser looks like: 256 bits, written as 64 hexadecimal digits.
///
/// `Debug` shows none of it: a fingerprint follows a person around, and must not reach a log.
///
/// | input | answer |
/// |---|---|
/// | 64 hexadecimal digits, of either case | the fingerprint |
/// | any other length | [`InvalidFingerprint::Length`] |
/// | any other character | [`InvalidFingerprint::Digit`] |
///
/// # Examples
/// ```
/// use limiter_sessions::Fingerprint;
///
/// let fingerprint: Fingerprint = "AB".repeat(32).parse()?;
/// assert_eq!(fingerprint.to_hex(), "ab".repeat(32));
/// assert_eq!(format!("{fingerprint:?}"), "Fingerprint(..)");
/// # Ok::<(), limiter_sessions::InvalidFingerprint>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Takes the hash itself.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the hash itself.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the hash as 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        super::hex::encode(&self.0)
    }
}

impl FromStr for Fingerprint {
    type Err = InvalidFingerprint;

    fn from_str(text: &str) -> Result<Self, InvalidFingerprint> {
        if text.len() != 64 {
            return Err(InvalidFingerprint::Length { len: text.len() });
        }
        super::hex::decode(text.as_bytes())
            .map(Self)
            .ok_or(InvalidFingerprint::Digit)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(..)")
    }
}

/// Says why a text is no [`Fingerprint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidFingerprint {
    /// It is too short or too long.
    #[error(
        "fingerprint has {len} bytes: a fingerprint is 64 hexadecimal digits, such as SHA-256 gives"
    )]
    Length {
        /// How many bytes there were.
        len: usize,
    },
    /// It holds a character that is no hexadecimal digit.
    #[error("fingerprint holds a character other than 0-9, a-f and A-F")]
    Digit,
}
