//! [`KeyHash`]: 128 keyed bits of a key, of which nobody can say more than that chance made them.

/// A hash of 128 bits under a secret, in two words.
///
/// Two different keys have the same hash with a chance of 2^-128, whatever keys they are: for random factors this is proven, not
/// hoped for. The factors are drawn from `SipHash-1-3` under 128 bits of the system's chance, so it holds as far as that is a
/// pseudorandom function.
///
/// Each word begins as a sum of the key's words, each times a factor of 128 bits, of which the upper 64 bits are kept. Under
/// random factors, what comes of two keys are two independent and even draws (multilinear hashing, strongly universal). Then the
/// second word, squared, is added to the first: that leaves the draws as they are, and no pattern among many keys in place.
///
/// The last word of a key is what is left of it and a 1 behind: so no key is another one with zeros at its end.
pub(crate) struct KeyHash {
    addend: [u128; 2],
    of_words: [[u128; 2]; MAX_WORDS],
}

/// What is hashed is a key, or the name of a policy, a byte and a key.
const MAX_BYTES: usize = limiter_core::PlanName::MAX_LEN + 1 + limiter_core::Key::MAX_LEN;
const MAX_WORDS: usize = MAX_BYTES / size_of::<u64>() + 1;

impl KeyHash {
    /// Makes a hash whose secret is what `draw` returns, again and again.
    pub(crate) fn of_secret(mut draw: impl FnMut() -> u64) -> Self {
        let mut factor = || u128::from(draw()) << 64 | u128::from(draw());
        let mut factors = || [factor(), factor()];
        Self {
            addend: factors(),
            of_words: std::array::from_fn(|_| factors()),
        }
    }

    /// Hashes up to 320 bytes, more than which nobody has.
    #[expect(
        clippy::inline_always,
        reason = "measured: a key's length is known where it is hashed, and the sums stay in registers"
    )]
    #[inline(always)]
    pub(crate) fn hash(&self, bytes: &[u8]) -> (u64, u64) {
        debug_assert!(bytes.len() <= MAX_BYTES, "{} bytes", bytes.len());
        let mut sums = self.addend;
        let (words, rest) = bytes.as_chunks();
        for (word, factors) in words.iter().zip(&self.of_words) {
            sums = plus(sums, *factors, u64::from_le_bytes(*word));
        }
        if let Some(factors) = self.of_words.get(words.len()) {
            let last = if rest.is_empty() {
                1
            } else {
                last_word(bytes, rest)
            };
            sums = plus(sums, *factors, last);
        }
        let [first, second] = sums.map(upper);
        (first.wrapping_add(squared(second)), second)
    }
}

#[inline]
fn plus([a, b]: [u128; 2], [of_a, of_b]: [u128; 2], word: u64) -> [u128; 2] {
    let word = u128::from(word);
    [
        a.wrapping_add(of_a.wrapping_mul(word)),
        b.wrapping_add(of_b.wrapping_mul(word)),
    ]
}

const fn upper(sum: u128) -> u64 {
    (sum >> 64) as u64
}

/// Returns the square of a word, its upper half folded onto its lower.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the other half is folded in"
)]
fn squared(word: u64) -> u64 {
    let square = u128::from(word) * u128::from(word);
    upper(square) ^ square as u64
}

/// Returns the one to seven bytes at the end of `bytes` that make no whole word, the first of them lowest, and a 1 behind.
#[inline]
fn last_word(bytes: &[u8], rest: &[u8]) -> u64 {
    let word = match bytes.last_chunk() {
        Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * rest.len()),
        None => rest
            .iter()
            .rfold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    word | 1 << (8 * rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn seeded(seed: u64) -> KeyHash {
        let mut random = fastrand::Rng::with_seed(seed);
        KeyHash::of_secret(|| random.u64(..))
    }

    /// The same sums, by hand: schoolbook multiplication, word by word of 32 bits, one lane at a time.
    fn slowly(hash: &KeyHash, bytes: &[u8]) -> (u64, u64) {
        let mut bytes = bytes.to_vec();
        bytes.push(1);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let words = bytes
            .chunks(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        let lane = |lane: usize| {
            let mut sum = limbs(hash.addend[lane]);
            for (factor, word) in hash.of_words.iter().zip(words.clone()) {
                let part = times(limbs(factor[lane]), limbs(u128::from(word)));
                add(&mut sum, &part);
            }
            u64::from(sum[2]) | u64::from(sum[3]) << 32
        };
        let (first, second) = (lane(0), lane(1));
        let square = times(limbs(u128::from(second)), limbs(u128::from(second)));
        let half = |at: usize| u64::from(square[at]) | u64::from(square[at + 1]) << 32;
        (first.wrapping_add(half(0) ^ half(2)), second)
    }

    fn limbs(number: u128) -> [u32; 4] {
        std::array::from_fn(|at| u32::try_from(number >> (32 * at) & 0xffff_ffff).unwrap())
    }

    fn add(sum: &mut [u32; 4], other: &[u32; 4]) {
        let mut carry = 0;
        for (to, from) in sum.iter_mut().zip(other) {
            let digit = u64::from(*to) + u64::from(*from) + carry;
            *to = u32::try_from(digit & 0xffff_ffff).unwrap();
            carry = digit >> 32;
        }
    }

    fn times(a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        let mut product = [0; 4];
        for (shift, digit) in b.iter().enumerate() {
            for (at, other) in a.iter().enumerate().take(4 - shift) {
                let part = u128::from(*digit) * u128::from(*other);
                add(&mut product, &limbs(part << (32 * (at + shift))));
            }
        }
        product
    }

    proptest! {
        #[test]
        fn prop_it_is_the_sum_by_hand(
            seed: u64,
            bytes in proptest::collection::vec(any::<u8>(), 0..=MAX_BYTES),
        ) {
            let hash = seeded(seed);
            prop_assert_eq!(hash.hash(&bytes), slowly(&hash, &bytes));
        }
    }

    #[test]
    fn zeros_at_the_end_count() {
        let (hash, zeros) = (seeded(1), [0; MAX_BYTES]);
        let hashes: HashSet<_> = (0..=MAX_BYTES)
            .map(|len| hash.hash(&zeros[..len]))
            .collect();
        assert_eq!(hashes.len(), MAX_BYTES + 1);
    }

    #[test]
    fn every_bit_of_a_key_counts_in_both_words() {
        let hash = seeded(2);
        let key = [0x5a; MAX_BYTES];
        let (first, second) = hash.hash(&key);
        for bit in 0..8 * MAX_BYTES {
            let mut other = key;
            other[bit / 8] ^= 1 << (bit % 8);
            let (other_first, other_second) = hash.hash(&other);
            assert!(first != other_first && second != other_second, "bit {bit}");
        }
    }

    /// Names with a number at the end are the commonest keys, and what a sum of products would lay out in a pattern: they
    /// must fill 4096 places as evenly as chance does, in the low bits of the first word as in the high ones.
    #[test]
    fn numbered_keys_spread_as_chance_has_it() {
        const KEYS: u32 = 1 << 17;
        const PLACES: u16 = 1 << 12;
        for seed in 0..8 {
            let hash = seeded(seed);
            let mut low = vec![0_u32; PLACES.into()];
            let mut high = low.clone();
            for nth in 0..KEYS {
                let (first, _) = hash.hash(format!("user:{nth:011}").as_bytes());
                low[usize::try_from(first).unwrap() % usize::from(PLACES)] += 1;
                high[usize::try_from(first >> 52).unwrap()] += 1;
            }
            for (name, places) in [("low", low), ("high", high)] {
                let mean = f64::from(KEYS) / f64::from(PLACES);
                let squares: f64 = places.iter().map(|&n| (f64::from(n) - mean).powi(2)).sum();
                let spread = squares / mean / f64::from(PLACES);
                // By chance 1 with a deviation of 0.022: nine of them on either side.
                assert!(
                    (0.8..1.2).contains(&spread),
                    "seed {seed}, {name}: {spread}"
                );
            }
        }
    }
}
