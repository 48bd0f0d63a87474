//! [`Reader`]: big-endian numbers out of bytes, one after the other.

/// Reads numbers off the front of some bytes; `None` once they are used up.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads an unsigned number of `width` bytes, 8 at most.
    pub(crate) fn number(&mut self, width: usize) -> Option<u64> {
        let taken = self.take(width)?;
        Some(
            taken
                .iter()
                .fold(0, |number, &byte| number << 8 | u64::from(byte)),
        )
    }

    pub(crate) fn small(&mut self) -> Option<u32> {
        self.number(4).and_then(|number| u32::try_from(number).ok())
    }

    /// Reads bytes that their count comes before, in one byte.
    #[cfg(feature = "sessions")]
    pub(crate) fn counted(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number(1)?).ok()?;
        self.take(len)
    }

    /// Reads digits up to and including the byte that `ends` them.
    pub(crate) fn digits(&mut self, ends: impl Fn(u8) -> bool) -> Option<(u64, u8)> {
        let len = self.0.iter().position(|byte| !byte.is_ascii_digit())?;
        let digits = self.take(len)?;
        let end = *self.take(1)?.first()?;
        let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
        ends(end).then_some((number, end))
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.0
    }
}
