//! [`TokenBucket`]: a burst, and a steady refill.

use std::time::Duration;

use super::checked::checked_units;
use super::{InvalidLimit, Rate};
use crate::period::{days, hours, minutes, seconds};

/// A token bucket, as asked for: `capacity` tokens, refilled steadily at a rate. Turned into a checked
/// [`Limit`](crate::Limit) with `try_into`, or by [`Plan::new`](crate::Plan::new).
///
/// | input | answer |
/// |---|---|
/// | capacity or refill of 0, or more than 10^9 | [`InvalidLimit::Units`] |
/// | period below 1 ms or above 366 days | [`InvalidLimit::Period`] |
/// | period with parts of a microsecond | [`InvalidLimit::PartOfAMicrosecond`] |
/// | more than 142 years to fill | [`InvalidLimit::FillsTooSlowly`] |
///
/// # Examples
/// ```
/// use limiter_core::{Limit, TokenBucket, hours};
///
/// let limit = Limit::try_from(TokenBucket::per_second(10).with_capacity(20))?;
/// assert_eq!(limit.to_string(), "10/s burst 20");
/// let daily = Limit::try_from(TokenBucket::new(1000, hours(24)))?;
/// assert_eq!(daily.to_string(), "1000/24h");
/// # Ok::<(), limiter_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a token bucket does nothing until it is made a limit"]
pub struct TokenBucket {
    capacity: Option<u32>,
    refill: u32,
    period: Duration,
}

impl TokenBucket {
    /// Asks for `refill` tokens per `period`, and as large a burst.
    pub const fn new(refill: u32, period: Duration) -> Self {
        Self {
            capacity: None,
            refill,
            period,
        }
    }

    /// Asks for `refill` tokens a second, and as large a burst.
    pub const fn per_second(refill: u32) -> Self {
        Self::new(refill, seconds(1))
    }

    /// Asks for `refill` tokens a minute, and as large a burst.
    pub const fn per_minute(refill: u32) -> Self {
        Self::new(refill, minutes(1))
    }

    /// Asks for `refill` tokens an hour, and as large a burst.
    pub const fn per_hour(refill: u32) -> Self {
        Self::new(refill, hours(1))
    }

    /// Asks for `refill` tokens a day, and as large a burst.
    pub const fn per_day(refill: u32) -> Self {
        Self::new(refill, days(1))
    }

    /// Asks for tokens at `rate`; the burst is what one period brings, rounded down (`5.5/s`: 5).
    pub fn at(rate: Rate) -> Self {
        Self {
            capacity: Some(rate.natural_burst()),
            refill: rate.units(),
            period: Duration::from_micros(rate.period_us()),
        }
    }

    /// Asks for room for `capacity` tokens.
    pub const fn with_capacity(mut self, capacity: u32) -> Self {
        self.capacity = Some(capacity);
        self
    }
}

/// The checked numbers of a token bucket, ready for the math.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketRule {
    capacity: u32,
    stated: Rate,
    rate: Rate,
}

/// The longest time that an empty bucket may take to fill: sums with a [`Timestamp`](crate::Timestamp) stay below 2^53.
const MAX_FILL_US: u128 = (1 << 52) - 1;

impl BucketRule {
    pub(crate) fn new(capacity: u32, stated: Rate) -> Result<Self, InvalidLimit> {
        if fill_us(capacity, stated) > MAX_FILL_US {
            return Err(InvalidLimit::FillsTooSlowly);
        }
        Ok(Self {
            capacity,
            stated,
            rate: stated.reduced(),
        })
    }

    /// Returns a bucket of that capacity, or of as much as the rate fills in the longest time that is allowed.
    pub(crate) fn of_at_most(capacity: u32, stated: Rate) -> Option<Self> {
        let filled = MAX_FILL_US * u128::from(stated.units()) / u128::from(stated.period_us());
        let capacity = u32::try_from(filled).map_or(capacity, |filled| capacity.min(filled));
        Self::new(capacity, stated).ok()
    }

    /// Returns the most tokens that the bucket holds.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Returns the microseconds in which an empty bucket fills, rounded up.
    #[must_use]
    pub fn fill_us(&self) -> u64 {
        let fill_us = fill_us(self.capacity, self.rate);
        u64::try_from(fill_us).unwrap_or(u64::MAX)
    }

    /// Returns the refill in its smallest numbers, as states keep it.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the refill as it was asked for.
    #[must_use]
    pub const fn stated_rate(&self) -> Rate {
        self.stated
    }
}

fn fill_us(capacity: u32, rate: Rate) -> u128 {
    (u128::from(capacity) * u128::from(rate.period_us())).div_ceil(u128::from(rate.units()))
}

impl TryFrom<TokenBucket> for BucketRule {
    type Error = InvalidLimit;

    fn try_from(asked: TokenBucket) -> Result<Self, InvalidLimit> {
        let rate = Rate::checked("refill", asked.refill, asked.period)?;
        let capacity = checked_units(
            "capacity",
            u64::from(asked.capacity.unwrap_or(asked.refill)),
        )?;
        Self::new(capacity, rate)
    }
}
