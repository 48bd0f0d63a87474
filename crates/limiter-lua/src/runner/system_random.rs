//! [`SystemRandom`]: where suppressing windows draw from if nothing else is named.

use limiter_core::RandomSource;

/// Draws from a fast generator of the calling thread. Evenly distributed, not secret.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl RandomSource for SystemRandom {
    fn next_u64(&self) -> u64 {
        fastrand::u64(..)
    }
}
