//! [`Country`]: where an address is registered.

use std::fmt;
use std::str::FromStr;

/// A country, by its two letters of ISO 3166-1. Whether such a country exists is not looked up.
///
/// # Examples
/// ```
/// use limiter_sessions::Country;
///
/// assert_eq!("us".parse::<Country>()?.as_str(), "US");
/// assert!("USA".parse::<Country>().is_err());
/// # Ok::<(), limiter_sessions::InvalidCountry>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Country([u8; 2]);

impl Country {
    /// Returns the two letters, upper case.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl FromStr for Country {
    type Err = InvalidCountry;

    fn from_str(text: &str) -> Result<Self, InvalidCountry> {
        match text.as_bytes() {
            [a, b] if a.is_ascii_alphabetic() && b.is_ascii_alphabetic() => {
                Ok(Self([a.to_ascii_uppercase(), b.to_ascii_uppercase()]))
            }
            _ => Err(InvalidCountry),
        }
    }
}

impl fmt::Display for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Says that a text is no [`Country`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("country is not two letters: write it as in ISO 3166-1, such as DE or US")]
pub struct InvalidCountry;
