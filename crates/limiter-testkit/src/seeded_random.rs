//! [`SeededRandom`]: chance that repeats itself.

use std::sync::atomic::{AtomicU64, Ordering};

use limiter_core::RandomSource;

/// Draws the same bits for the same seed, in every run. Not for secrets.
///
/// # Examples
/// ```
/// use limiter_core::RandomSource;
/// use limiter_testkit::SeededRandom;
///
/// assert_eq!(SeededRandom::new(7).next_u64(), SeededRandom::new(7).next_u64());
/// ```
#[derive(Debug)]
pub struct SeededRandom {
    state: AtomicU64,
}

/// The step of the `SplitMix64` generator: odd, so that every state comes once in 2^64 draws.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl SeededRandom {
    /// Starts the sequence of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self {
            state: AtomicU64::new(seed),
        }
    }
}

impl RandomSource for SeededRandom {
    fn next_u64(&self) -> u64 {
        let mut bits = self
            .state
            .fetch_add(STEP, Ordering::Relaxed)
            .wrapping_add(STEP);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_those_of_splitmix64() {
        let random = SeededRandom::new(0);
        assert_eq!(random.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next_u64(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn draws_are_spread_evenly() {
        let random = SeededRandom::new(42);
        let high = (0..10_000).filter(|_| random.next_u64() >= 1 << 63).count();
        assert!((4_800..=5_200).contains(&high), "{high} of 10000 are high");
    }
}
