//! [`Label`]: a short name.

use std::fmt;
use std::str::FromStr;

/// A short name, of a kind of anomaly or of a cluster: 1 to 64 of `A-Z`, `a-z`, `0-9`, `.`, `_` and `-`.
///
/// # Examples
/// ```
/// use limiter_sessions::Label;
///
/// assert_eq!(Label::new("replayed_nonce")?.as_str(), "replayed_nonce");
/// assert!(Label::new("two words").is_err());
/// # Ok::<(), limiter_sessions::InvalidLabel>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Box<str>);

impl Label {
    /// The longest label, in bytes.
    pub const MAX_LEN: usize = 64;

    /// Checks and keeps `text`.
    ///
    /// # Errors
    /// [`InvalidLabel`] if it is too long, empty, or holds other characters.
    pub fn new(text: &str) -> Result<Self, InvalidLabel> {
        let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if (1..=Self::MAX_LEN).contains(&text.len()) && text.bytes().all(sound) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidLabel { len: text.len() })
        }
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Label {
    type Err = InvalidLabel;

    fn from_str(text: &str) -> Result<Self, InvalidLabel> {
        Self::new(text)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Says that a text is no [`Label`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "label of {len} bytes is not allowed: a label is 1 to {} of A-Z, a-z, 0-9, '.', '_' and '-'",
    Label::MAX_LEN
)]
pub struct InvalidLabel {
    len: usize,
}
