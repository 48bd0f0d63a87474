//! [`SlidingWindow`]: at most so many units in every stretch of time.

use std::time::Duration;

use super::{InvalidLimit, Rate, WindowRule};

/// A sliding window, as asked for: at most `limit` units in every interval as long as `window`.
///
/// Increments less than a `granularity` after the first of a sub-bucket share it, and leave together, one window after
/// the last of them: sharing can hold a unit back by at most one granularity, and never frees one early. The default is
/// a hundredth of the window.
///
/// | input | answer |
/// |---|---|
/// | limit of 0, or more than 10^9 | [`InvalidLimit::Units`] |
/// | window below 1 ms or above 366 days | [`InvalidLimit::Period`] |
/// | window or granularity with parts of a microsecond | [`InvalidLimit::PartOfAMicrosecond`] |
/// | granularity of 0 or beyond the window | [`InvalidLimit::Granularity`] |
/// | more than 256 sub-buckets, for a limit above 256 | [`InvalidLimit::TooFine`] |
/// | a rate that is not whole over the window | [`InvalidLimit::NotWhole`] |
///
/// # Examples
/// ```
/// use limiter_core::{Limit, SlidingWindow, hours, seconds};
///
/// let daily = Limit::try_from(SlidingWindow::new(1000, hours(24)))?;
/// assert_eq!(daily.to_string(), "sliding 1000/24h");
/// let fractional = Limit::try_from(SlidingWindow::at("5.5/s".parse()?, seconds(10))?)?;
/// assert_eq!(fractional.to_string(), "sliding 55/10s");
/// # Ok::<(), limiter_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a sliding window does nothing until it is made a limit"]
pub struct SlidingWindow {
    limit: u64,
    window: Duration,
    granularity: Option<Duration>,
}

impl SlidingWindow {
    /// Asks for at most `limit` units per `window`.
    pub const fn new(limit: u32, window: Duration) -> Self {
        Self {
            limit: limit as u64,
            window,
            granularity: None,
        }
    }

    /// Asks for what `rate` brings in `window`.
    ///
    /// # Errors
    /// [`InvalidLimit::NotWhole`] if that is no whole number of units, or [`InvalidLimit::Period`] for a bad window.
    pub fn at(rate: Rate, window: Duration) -> Result<Self, InvalidLimit> {
        Ok(Self {
            limit: rate.units_in(window)?,
            window,
            granularity: None,
        })
    }

    /// Asks for sub-buckets of `granularity`.
    pub const fn with_granularity(mut self, granularity: Duration) -> Self {
        self.granularity = Some(granularity);
        self
    }
}

impl TryFrom<SlidingWindow> for WindowRule {
    type Error = InvalidLimit;

    fn try_from(asked: SlidingWindow) -> Result<Self, InvalidLimit> {
        Self::new(asked.limit, asked.window, asked.granularity, true)
    }
}
