//! [`SuppressingWindow`]: a soft limit that refuses more and more, up to a hard one.

use std::time::Duration;

use super::checked::checked_units;
use super::{InvalidLimit, WindowRule};

/// A suppressing window, as asked for: a soft limit, and a hard limit above it.
///
/// Up to the soft limit every request is admitted. Between the two, each is admitted with probability `1 - f`, where
/// `f = 1 - soft_rate / observed_rate`; from the hard limit on, none is. Denied requests count as observed, so a client
/// that keeps hammering stays out. The observed rate is the higher of the window's average and of the last second: what
/// came in the sub-buckets that were used within it, over the time that they cover, which is at least a second.
///
/// | input | answer |
/// |---|---|
/// | a limit of 0, or more than 10^9 | [`InvalidLimit::Units`] |
/// | hard limit below the soft one | [`InvalidLimit::HardBelowSoft`] |
/// | window below 1 ms or above 366 days | [`InvalidLimit::Period`] |
/// | window or granularity with parts of a microsecond | [`InvalidLimit::PartOfAMicrosecond`] |
/// | granularity of 0 or beyond the window | [`InvalidLimit::Granularity`] |
/// | more than 256 sub-buckets | [`InvalidLimit::TooFine`] |
///
/// # Examples
/// ```
/// use limiter_core::{Limit, SuppressingWindow, seconds};
///
/// let limit = Limit::try_from(SuppressingWindow::new(100, seconds(10)).with_hard_percent(150))?;
/// assert_eq!(limit.to_string(), "suppressing 100/10s hard 150");
/// # Ok::<(), limiter_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a suppressing window does nothing until it is made a limit"]
pub struct SuppressingWindow {
    soft: u32,
    hard: u64,
    window: Duration,
    granularity: Option<Duration>,
}

impl SuppressingWindow {
    /// Asks for `soft` units per `window`, and a hard limit of twice that.
    pub const fn new(soft: u32, window: Duration) -> Self {
        Self {
            soft,
            hard: soft as u64 * 2,
            window,
            granularity: None,
        }
    }

    /// Asks for a hard limit of `hard` units per window.
    pub const fn with_hard_limit(mut self, hard: u32) -> Self {
        self.hard = hard as u64;
        self
    }

    /// Asks for a hard limit of `percent` hundredths of the soft one, rounded down.
    pub const fn with_hard_percent(mut self, percent: u32) -> Self {
        self.hard = self.soft as u64 * percent as u64 / 100;
        self
    }

    /// Asks for sub-buckets of `granularity`.
    pub const fn with_granularity(mut self, granularity: Duration) -> Self {
        self.granularity = Some(granularity);
        self
    }
}

/// The checked numbers of a suppressing window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuppressingRule {
    soft: WindowRule,
    hard: u32,
}

impl SuppressingRule {
    pub(crate) const fn new(soft: WindowRule, hard: u32) -> Self {
        Self { soft, hard }
    }

    /// Returns the soft limit, with its window and granularity.
    #[must_use]
    pub const fn soft(&self) -> &WindowRule {
        &self.soft
    }

    /// Returns the hard limit.
    #[must_use]
    pub const fn hard(&self) -> u32 {
        self.hard
    }
}

impl TryFrom<SuppressingWindow> for SuppressingRule {
    type Error = InvalidLimit;

    fn try_from(asked: SuppressingWindow) -> Result<Self, InvalidLimit> {
        let soft = WindowRule::new(
            u64::from(asked.soft),
            asked.window,
            asked.granularity,
            false,
        )?;
        let hard = checked_units("hard limit", asked.hard)?;
        if hard < soft.limit() {
            return Err(InvalidLimit::HardBelowSoft {
                soft: soft.limit(),
                hard,
            });
        }
        Ok(Self::new(soft, hard))
    }
}
