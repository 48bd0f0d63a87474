//! Periods in words: [`seconds`], [`minutes`], [`hours`], [`days`].

use std::time::Duration;

/// The shortest period of a plan, in microseconds.
pub(crate) const MIN_PERIOD_US: u64 = 1_000;
/// The longest period of a plan, in microseconds: 366 days.
pub(crate) const MAX_PERIOD_US: u64 = 366 * 24 * 3600 * 1_000_000;

/// Returns a period of `n` seconds.
#[must_use]
pub const fn seconds(n: u32) -> Duration {
    Duration::from_secs(n as u64)
}

/// Returns a period of `n` minutes.
#[must_use]
pub const fn minutes(n: u32) -> Duration {
    Duration::from_secs(n as u64 * 60)
}

/// Returns a period of `n` hours.
#[must_use]
pub const fn hours(n: u32) -> Duration {
    Duration::from_secs(n as u64 * 3600)
}

/// Returns a period of `n` days of 24 hours.
#[must_use]
pub const fn days(n: u32) -> Duration {
    Duration::from_secs(n as u64 * 86_400)
}
