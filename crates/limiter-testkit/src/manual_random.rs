//! [`ManualRandom`]: chance that tests decide.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use limiter_core::RandomSource;
use limiter_core::math::Draw;

/// Draws the same bits every time, until it is told other ones. Clones share them.
///
/// # Examples
/// ```
/// use limiter_testkit::ManualRandom;
///
/// let random = ManualRandom::new();
/// random.set(u64::MAX);
/// assert_eq!(random.draw().get(), 999_999);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualRandom {
    bits: Arc<AtomicU64>,
}

impl ManualRandom {
    /// Starts with the bits that turn away whatever is not certain to pass.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes `bits` what is drawn from now on.
    pub fn set(&self, bits: u64) {
        self.bits.store(bits, Ordering::SeqCst);
    }

    /// Returns the draw that a store makes of the present bits.
    #[must_use]
    pub fn draw(&self) -> Draw {
        Draw::from_random(self.next_u64())
    }
}

impl RandomSource for ManualRandom {
    fn next_u64(&self) -> u64 {
        self.bits.load(Ordering::SeqCst)
    }
}
