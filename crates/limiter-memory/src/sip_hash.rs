//! [`SipHash`]: SipHash-1-3 with 128 bits, in two halves.

/// SipHash-1-3 with an output of 128 bits, given as two words, one at a time: whoever waits for something between the two
/// has the second for free.
#[derive(Clone, Copy)]
pub(crate) struct SipHash([u64; 4]);

impl SipHash {
    /// Begins to hash under a secret of 128 bits.
    pub(crate) fn keyed(first: u64, second: u64) -> Self {
        Self([
            first ^ u64::from_be_bytes(*b"somepseu"),
            second ^ u64::from_be_bytes(*b"dorandom") ^ 0xee,
            first ^ u64::from_be_bytes(*b"lygenera"),
            second ^ u64::from_be_bytes(*b"tedbytes"),
        ])
    }

    /// Takes in all there is to hash, and returns the first word of its hash.
    #[expect(
        clippy::inline_always,
        reason = "measured: what the second word needs stays in registers"
    )]
    #[inline(always)]
    pub(crate) fn first_word(&mut self, bytes: &[u8]) -> u64 {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.absorb(u64::from_le_bytes(*word));
        }
        self.absorb((bytes.len() as u64) << 56 | last_word(bytes, rest));
        self.0[2] ^= 0xee;
        self.squeeze()
    }

    /// Returns the second word, after the first.
    #[inline]
    pub(crate) fn second_word(mut self) -> u64 {
        self.0[1] ^= 0xdd;
        self.squeeze()
    }

    #[inline]
    fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.0[0] ^= word;
    }

    #[inline]
    fn squeeze(&mut self) -> u64 {
        self.round();
        self.round();
        self.round();
        let [a, b, c, d] = self.0;
        a ^ b ^ c ^ d
    }

    #[inline]
    fn round(&mut self) {
        let [a, b, c, d] = &mut self.0;
        *a = a.wrapping_add(*b);
        *c = c.wrapping_add(*d);
        *b = b.rotate_left(13) ^ *a;
        *d = d.rotate_left(16) ^ *c;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*b);
        *a = a.wrapping_add(*d);
        *b = b.rotate_left(17) ^ *c;
        *d = d.rotate_left(21) ^ *a;
        *c = c.rotate_left(32);
    }
}

/// Returns the up to seven bytes at the end of `bytes` that make no whole word, the first of them lowest.
#[inline]
fn last_word(bytes: &[u8], rest: &[u8]) -> u64 {
    match bytes.last_chunk() {
        _ if rest.is_empty() => 0,
        Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * rest.len()),
        None => rest
            .iter()
            .rfold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use siphasher::sip128::{Hasher128, SipHasher13};
    use std::hash::Hasher;

    proptest! {
        #[test]
        fn prop_it_is_the_siphash_of_others(
            first: u64,
            second: u64,
            bytes in proptest::collection::vec(any::<u8>(), 0..70),
        ) {
            let mut theirs = SipHasher13::new_with_keys(first, second);
            theirs.write(&bytes);
            let mut ours = SipHash::keyed(first, second);
            let words = (ours.first_word(&bytes), ours.second_word());
            prop_assert_eq!(words, theirs.finish128().as_u64());
        }
    }
}
