//! [`Draw`] and [`Suppression`]: chance, in whole millionths.

const ALL: u32 = 1_000_000;

/// A number drawn evenly from 0 to 999,999, which decides whether a suppressing window lets a request pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Draw(u32);

impl Draw {
    /// The draw that passes only where no request is refused: what a `peek` uses.
    pub const LOWEST: Self = Self(0);

    /// Scales 64 random bits to a draw.
    #[must_use]
    pub fn from_random(bits: u64) -> Self {
        let scaled = (u128::from(bits) * u128::from(ALL)) >> 64;
        Self(u32::try_from(scaled).unwrap_or(ALL - 1))
    }

    /// Returns the number, 0 to 999,999.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The share of requests that a suppressing window is refusing, in millionths: the `f` of its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Suppression(u32);

impl Suppression {
    /// No request is refused.
    pub const NONE: Self = Self(0);
    /// Every request is refused.
    pub const ALL: Self = Self(ALL);

    /// Returns the share in millionths, 0 to 1,000,000.
    #[must_use]
    pub const fn millionths(self) -> u32 {
        self.0
    }

    /// Returns the share that a store reports, at most [`Suppression::ALL`].
    #[must_use]
    pub fn from_millionths(millionths: u32) -> Self {
        Self(millionths.min(ALL))
    }

    pub(super) fn refusing_all_but(passing_millionths: u64) -> Self {
        Self(ALL - u32::try_from(passing_millionths).unwrap_or(ALL).min(ALL))
    }

    pub(super) const fn lets_pass(self, draw: Draw) -> bool {
        draw.0 >= self.0
    }
}
