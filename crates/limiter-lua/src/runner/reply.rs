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

    /// Returns the number, be it written as text: digits alone.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Int(number) => u64::try_from(*number).ok(),
            _ => digits(self.text()?),
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

/// Reads a number of digits alone; what the standard library reads may have a sign.
pub(crate) fn digits(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_digits_alone() {
        let number = |text: &str| Reply::Bytes(text.into()).number();
        assert_eq!(number("7000"), Some(7000));
        for text in ["+7000", "-1", "", "7 ", "18446744073709551616"] {
            assert_eq!(number(text), None, "{text:?}");
        }
        assert_eq!(Reply::Int(-1).number(), None);
    }
}
