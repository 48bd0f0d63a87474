//! [`SystemRandom`]: chance for suppressing windows.

use limiter_core::RandomSource;

/// Draws from a fast generator that each thread seeds for itself.
///
/// Good for sharing out load; not for secrets.
///
/// # Examples
/// ```
/// use limiter_core::RandomSource;
/// use limiter_memory::SystemRandom;
///
/// assert_ne!(SystemRandom.next_u64(), SystemRandom.next_u64());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl RandomSource for SystemRandom {
    fn next_u64(&self) -> u64 {
        fastrand::u64(..)
    }
}
