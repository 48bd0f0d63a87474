//! [`Reply`]: what a server replies, whatever the client.

/// What a server replies, whatever the client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// Nothing.
    Nil,
    /// Done.
    Okay,
    /// Bytes or text.
    Bytes(Vec<u8>),
    /// A number.
    Int(i64),
    /// Several; of a map the keys and values in turn.
    List(Vec<Self>),
}

impl Reply {
    /// Returns the bytes, if it has some.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            // Some clients do not tell a status from a text.
            Self::Okay => Some(b"OK"),
            _ => None,
        }
    }

    /// Returns the text, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// Returns the number, be it written as text.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Int(number) => u64::try_from(*number).ok(),
            _ => self.text()?.parse().ok(),
        }
    }

    /// Returns the parts of a list; none of anything else.
    #[must_use]
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::List(parts) => parts,
            _ => &[],
        }
    }
}
