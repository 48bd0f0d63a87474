//! [`SessionId`]: the name of a session.

use std::fmt;
use std::str::FromStr;

use super::hex;

/// The name of a session: a UUID, 32 hexadecimal digits in groups of 8-4-4-4-12.
///
/// Who knows an id can look the session up, so treat it as a secret: `Debug` shows its first group alone. Ids that
/// [`TagKey::session_id`](crate::TagKey::session_id) makes are of version 8, cannot be guessed without its secret, and say
/// where the session is kept.
///
/// | input | answer |
/// |---|---|
/// | `123e4567-e89b-12d3-a456-426614174000`, of either case, any version | the id |
/// | braces, `urn:uuid:`, no hyphens, other lengths, other characters | [`InvalidSessionId`] |
///
/// # Examples
/// ```
/// use limiter_sessions::SessionId;
///
/// let id: SessionId = "123E4567-e89b-12d3-a456-426614174000".parse()?;
/// assert_eq!(id.to_string(), "123e4567-e89b-12d3-a456-426614174000");
/// assert_eq!(format!("{id:?}"), "SessionId(123e4567..)");
/// # Ok::<(), limiter_sessions::InvalidSessionId>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId([u8; 16]);

/// Where the hyphens stand.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

impl SessionId {
    /// Takes the 16 bytes of a UUID, in the order in which they are written.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the 16 bytes, in the order in which they are written.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl FromStr for SessionId {
    type Err = InvalidSessionId;

    fn from_str(text: &str) -> Result<Self, InvalidSessionId> {
        let invalid = InvalidSessionId { len: text.len() };
        let bytes = text.as_bytes();
        let hyphens_stand = HYPHENS.iter().all(|&at| bytes.get(at) == Some(&b'-'));
        if bytes.len() != 36 || !hyphens_stand {
            return Err(invalid);
        }
        let digits: Vec<u8> = bytes.iter().copied().filter(|&byte| byte != b'-').collect();
        hex::decode(&digits).map(Self).ok_or(invalid)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = hex::encode(&self.0);
        for at in HYPHENS {
            text.insert(at, '-');
        }
        f.pad(&text)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.to_string();
        write!(f, "SessionId({}..)", text.get(..8).unwrap_or_default())
    }
}

/// Says that a text is no [`SessionId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "session id of {len} bytes is no UUID: write 32 hexadecimal digits in groups of 8-4-4-4-12"
)]
pub struct InvalidSessionId {
    len: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn prop_ids_read_back_from_their_text(bytes: [u8; 16]) {
            let id = SessionId::from_bytes(bytes);
            prop_assert_eq!(id.to_string().parse(), Ok(id));
            prop_assert_eq!(id.to_string().to_uppercase().parse(), Ok(id));
        }

        #[test]
        fn prop_no_text_makes_the_parser_panic(text in ".{0,40}") {
            let _ = text.parse::<SessionId>();
        }
    }
}
