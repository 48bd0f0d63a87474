//! [`FixedWindow`]: the cheapest counter.

use std::time::Duration;

use super::InvalidLimit;
use super::checked::{checked_period, checked_units};

/// A fixed window, as asked for: at most `limit` units per `window`, which starts at the first request.
///
/// The cheapest counter there is. Two windows may meet: **up to twice the limit can pass within one window's length**
/// across the boundary. Where that matters, take a [`SlidingWindow`](crate::SlidingWindow).
///
/// | input | answer |
/// |---|---|
/// | limit of 0, or more than 10^9 | [`InvalidLimit::Units`] |
/// | window below 1 ms or above 366 days | [`InvalidLimit::Period`] |
/// | window with parts of a microsecond | [`InvalidLimit::PartOfAMicrosecond`] |
///
/// # Examples
/// ```
/// use limiter_core::{FixedWindow, Limit, minutes};
///
/// let limit = Limit::try_from(FixedWindow::new(100, minutes(1)))?;
/// assert_eq!(limit.to_string(), "fixed 100/min");
/// # Ok::<(), limiter_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a fixed window does nothing until it is made a limit"]
pub struct FixedWindow {
    limit: u32,
    window: Duration,
}

impl FixedWindow {
    /// Asks for at most `limit` units per `window`.
    pub const fn new(limit: u32, window: Duration) -> Self {
        Self { limit, window }
    }
}

/// The checked numbers of a fixed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedRule {
    limit: u32,
    window_us: u64,
}

impl FixedRule {
    /// Returns how many units fit a window.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the length of the window in microseconds.
    #[must_use]
    pub const fn window_us(&self) -> u64 {
        self.window_us
    }

    /// Puts checked numbers together.
    pub(crate) const fn of_checked(limit: u32, window_us: u64) -> Self {
        Self { limit, window_us }
    }
}

impl TryFrom<FixedWindow> for FixedRule {
    type Error = InvalidLimit;

    fn try_from(asked: FixedWindow) -> Result<Self, InvalidLimit> {
        let limit = checked_units("limit", u64::from(asked.limit))?;
        Ok(Self {
            limit,
            window_us: checked_period("window", asked.window)?,
        })
    }
}
