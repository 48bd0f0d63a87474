//! [`BotProbability`]: how sure a detector is.

use std::fmt;

/// How sure a detector is that a visitor is a bot, in parts per million: 0 to 1,000,000.
///
/// | input | answer |
/// |---|---|
/// | 0 to 1,000,000 parts per million, or 0.0 to 1.0 | the probability |
/// | more, less, or no number | [`InvalidProbability`] |
///
/// # Examples
/// ```
/// use limiter_sessions::BotProbability;
///
/// let likely = BotProbability::from_fraction(0.75)?;
/// assert_eq!((likely.ppm(), likely.to_string().as_str()), (750_000, "75.0000%"));
/// assert!(BotProbability::from_ppm(1_000_001).is_err());
/// # Ok::<(), limiter_sessions::InvalidProbability>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BotProbability(u32);

impl BotProbability {
    /// Surely a bot.
    pub const CERTAIN: Self = Self(1_000_000);

    /// Checks and keeps parts per million.
    ///
    /// # Errors
    /// [`InvalidProbability`] if there are more than 1,000,000.
    pub const fn from_ppm(ppm: u32) -> Result<Self, InvalidProbability> {
        if ppm <= Self::CERTAIN.0 {
            Ok(Self(ppm))
        } else {
            Err(InvalidProbability)
        }
    }

    /// Checks a number from 0 to 1 and keeps it, rounded to the nearest part per million.
    ///
    /// # Errors
    /// [`InvalidProbability`] if it is outside of that, or no number.
    pub fn from_fraction(fraction: f64) -> Result<Self, InvalidProbability> {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(InvalidProbability);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it was checked to lie between 0 and a million"
        )]
        Ok(Self((fraction * 1_000_000.0).round() as u32))
    }

    /// Returns the parts per million.
    #[must_use]
    pub const fn ppm(self) -> u32 {
        self.0
    }

    /// Returns the mean of `count` probabilities that add up to `sum_ppm`, rounded down; `None` if there are none.
    #[must_use]
    pub fn mean(sum_ppm: u64, count: u64) -> Option<Self> {
        let mean = sum_ppm.checked_div(count)?;
        Some(u32::try_from(mean).map_or(Self::CERTAIN, |ppm| Self(ppm.min(Self::CERTAIN.0))))
    }
}

impl fmt::Display for BotProbability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:04}%", self.0 / 10_000, self.0 % 10_000)
    }
}

/// Says that a number is no [`BotProbability`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bot probability is out of range: it is 0.0 to 1.0, or 0 to 1000000 parts per million")]
pub struct InvalidProbability;
