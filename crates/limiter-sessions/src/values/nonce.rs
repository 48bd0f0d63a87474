//! [`Nonce`]: a text that is good for one request.

use std::fmt;
use std::str::FromStr;

/// A text that is good for one request: 1 to 100 of `A-Z`, `a-z`, `0-9` and `-`.
///
/// `Debug` shows the length alone.
///
/// | input | answer |
/// |---|---|
/// | empty, or more than 100 bytes | [`InvalidNonce::Length`] |
/// | any other character, letters beyond ASCII too | [`InvalidNonce::Character`] |
///
/// # Examples
/// ```
/// use limiter_sessions::{InvalidNonce, Nonce};
///
/// let nonce = Nonce::new("7f-Ab9")?;
/// assert_eq!((nonce.as_str(), format!("{nonce:?}").as_str()), ("7f-Ab9", "Nonce(6 bytes)"));
/// assert_eq!(Nonce::new("a b"), Err(InvalidNonce::Character));
/// # Ok::<(), InvalidNonce>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Nonce(Box<str>);

impl Nonce {
    /// The longest nonce, in bytes.
    pub const MAX_LEN: usize = 100;

    /// Checks and keeps `text`.
    ///
    /// # Errors
    /// [`InvalidNonce`] if it is no nonce.
    pub fn new(text: &str) -> Result<Self, InvalidNonce> {
        if !(1..=Self::MAX_LEN).contains(&text.len()) {
            return Err(InvalidNonce::Length { len: text.len() });
        }
        let sound = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if !text.bytes().all(sound) {
            return Err(InvalidNonce::Character);
        }
        Ok(Self(text.into()))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Nonce {
    type Err = InvalidNonce;

    fn from_str(text: &str) -> Result<Self, InvalidNonce> {
        Self::new(text)
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({} bytes)", self.0.len())
    }
}

/// Says why a text is no [`Nonce`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidNonce {
    /// It is empty or too long.
    #[error("nonce has {len} bytes: a nonce has 1 to {}", Nonce::MAX_LEN)]
    Length {
        /// How many bytes there were.
        len: usize,
    },
    /// It holds a character that no nonce has.
    #[error("nonce holds a character other than A-Z, a-z, 0-9 and -")]
    Character,
}
