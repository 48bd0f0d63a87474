//! [`WindowRule`]: the checked numbers that both windows with a log share.

use std::time::Duration;

use super::InvalidLimit;
use super::checked::{checked_period, checked_units};

/// The most sub-buckets that one key may keep for one plan (the newest one, still filling, apart): a store that keeps them
/// elsewhere then writes less than 4 KB for a call.
pub(crate) const MAX_SUB_BUCKETS: u16 = 256;
/// How many sub-buckets a window has if no granularity is named.
const DEFAULT_SUB_BUCKETS: u64 = 100;

/// The checked numbers of a sliding or suppressing window: a limit per window, and the width of a sub-bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowRule {
    limit: u32,
    window_us: u64,
    granularity_us: u64,
}

impl WindowRule {
    /// Checks the numbers of a window. `bounded_by_limit` says that every sub-bucket holds
    /// admitted units, so that a small limit bounds their number whatever the granularity.
    pub(crate) fn new(
        limit: u64,
        window: Duration,
        granularity: Option<Duration>,
        bounded_by_limit: bool,
    ) -> Result<Self, InvalidLimit> {
        let limit = checked_units("limit", limit)?;
        let window_us = checked_period("window", window)?;
        let Some(granularity) = granularity else {
            return Ok(Self {
                limit,
                window_us,
                granularity_us: default_granularity_us(window_us),
            });
        };
        let refused = InvalidLimit::Granularity {
            micros: granularity.as_micros(),
            window_us,
        };
        let nanos = granularity.subsec_nanos() % 1_000;
        if nanos != 0 {
            return Err(InvalidLimit::PartOfAMicrosecond {
                what: "granularity",
                nanos,
            });
        }
        let micros = u64::try_from(granularity.as_micros()).map_err(|_| refused.clone())?;
        if micros == 0 || micros > window_us {
            return Err(refused);
        }
        let few_units = bounded_by_limit && limit <= MAX_SUB_BUCKETS.into();
        let least_us = window_us.div_ceil(MAX_SUB_BUCKETS.into());
        if micros < least_us && !few_units {
            return Err(InvalidLimit::TooFine { micros, least_us });
        }
        Ok(Self {
            limit,
            window_us,
            granularity_us: micros,
        })
    }

    /// Returns the same window with another limit and at least its length, and as many sub-buckets.
    pub(crate) fn stretched(&self, limit: u32, window_us: u64) -> Self {
        let granularity = u128::from(self.granularity_us) * u128::from(window_us);
        let granularity_us = granularity.div_ceil(u128::from(self.window_us));
        Self {
            limit,
            window_us,
            granularity_us: u64::try_from(granularity_us).unwrap_or(window_us),
        }
    }

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

    /// Returns the microseconds within which increments share a sub-bucket.
    #[must_use]
    pub const fn granularity_us(&self) -> u64 {
        self.granularity_us
    }

    pub(crate) fn has_default_granularity(&self) -> bool {
        self.granularity_us == default_granularity_us(self.window_us)
    }
}

fn default_granularity_us(window_us: u64) -> u64 {
    (window_us / DEFAULT_SUB_BUCKETS).max(1)
}
