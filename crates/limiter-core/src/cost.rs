//! [`Cost`]: what one request spends.

use std::fmt;
use std::num::NonZeroU32;

/// Units that one request spends. Never zero.
///
/// | input | answer |
/// |---|---|
/// | 0 | [`InvalidCost`] |
/// | 1 to 4,294,967,295 | the cost; a plan refuses one that it could never admit |
///
/// # Examples
/// ```
/// use limiter_core::Cost;
///
/// assert_eq!(Cost::new(5)?.get(), 5);
/// assert_eq!(Cost::ONE.get(), 1);
/// assert!(Cost::new(0).is_err());
/// # Ok::<(), limiter_core::InvalidCost>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "u32", into = "u32")
)]
pub struct Cost(NonZeroU32);

impl Cost {
    /// The cost of an ordinary request.
    pub const ONE: Self = Self(NonZeroU32::MIN);

    /// Checks and keeps `units`.
    ///
    /// # Errors
    /// [`InvalidCost`] if `units` is zero.
    pub fn new(units: u32) -> Result<Self, InvalidCost> {
        NonZeroU32::new(units).map(Self).ok_or(InvalidCost)
    }

    /// Returns the number of units.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self::ONE
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<NonZeroU32> for Cost {
    fn from(units: NonZeroU32) -> Self {
        Self(units)
    }
}

impl TryFrom<u32> for Cost {
    type Error = InvalidCost;

    fn try_from(units: u32) -> Result<Self, InvalidCost> {
        Self::new(units)
    }
}

impl From<Cost> for u32 {
    fn from(cost: Cost) -> Self {
        cost.get()
    }
}

/// Says that a cost was zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cost is 0: a request costs at least 1 unit; use `peek` to look without spending")]
pub struct InvalidCost;
