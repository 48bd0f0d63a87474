//! Random limits of every algorithm, mostly small, so that few calls reach their edges.

use std::time::Duration;

use limiter_core::{
    FixedWindow, InvalidLimit, Limit, SlidingWindow, SuppressingWindow, TokenBucket,
};
use proptest::prelude::*;

/// Longest fill of a bucket: histories end long before [`Timestamp::MAX`](limiter_core::Timestamp::MAX).
const FILL_MAX: Duration = Duration::from_secs(20 * 366 * 86_400);

/// Returns limits of all algorithms: small and huge numbers, periods of a millisecond to a year.
pub fn limits() -> impl Strategy<Value = Limit> + Clone {
    prop_oneof![
        4 => token_buckets(),
        4 => sliding_windows(),
        3 => suppressing_windows(),
        2 => fixed_windows(),
    ]
}

/// Returns token buckets that fill within twenty years.
pub fn token_buckets() -> impl Strategy<Value = Limit> + Clone {
    let asked = (units(), units(), periods()).prop_map(|(capacity, refill, period)| {
        TokenBucket::new(refill, period).with_capacity(capacity)
    });
    accepted(asked).prop_filter("fills within years", |limit| limit.window() < FILL_MAX)
}

/// Returns sliding windows, some with a granularity of their own.
pub fn sliding_windows() -> impl Strategy<Value = Limit> + Clone {
    let asked = (units(), periods(), granularities()).prop_map(|(limit, window, parts)| {
        let sliding = SlidingWindow::new(limit, window);
        match parts {
            None => sliding,
            Some(parts) => sliding.with_granularity(part_of(window, parts)),
        }
    });
    accepted(asked)
}

/// Returns suppressing windows, some with no room between their limits.
pub fn suppressing_windows() -> impl Strategy<Value = Limit> + Clone {
    let percent = prop_oneof![Just(100_u32), 101..=400_u32];
    let asked = (
        1..=300_000_000_u32,
        units(),
        periods(),
        granularities(),
        percent,
    );
    let asked = asked.prop_map(|(large, units, window, parts, percent)| {
        let soft = if units > 1_000_000 { large / 4 } else { units };
        let soft = SuppressingWindow::new(soft.max(1), window).with_hard_percent(percent);
        match parts {
            None => soft,
            Some(parts) => soft.with_granularity(part_of(window, parts)),
        }
    });
    accepted(asked)
}

/// Returns fixed windows.
pub fn fixed_windows() -> impl Strategy<Value = Limit> + Clone {
    let asked = (units(), periods()).prop_map(|(limit, window)| FixedWindow::new(limit, window));
    accepted(asked)
}

fn units() -> impl Strategy<Value = u32> + Clone {
    prop_oneof![
        12 => 1..=12_u32,
        3 => 13..=1_000_u32,
        1 => 1_001..=1_000_000_000_u32,
        1 => Just(1_000_003_u32),
    ]
}

fn periods() -> impl Strategy<Value = Duration> + Clone {
    prop_oneof![
        3 => (1_000..=20_000_u64).prop_map(Duration::from_micros),
        3 => (20_001..=3_000_000_u64).prop_map(Duration::from_micros),
        3 => (1..=120_u64).prop_map(Duration::from_secs),
        1 => (1..=366_u64).prop_map(|days| Duration::from_secs(days * 86_400)),
        1 => (1_000..=366 * 86_400_000_000_u64).prop_map(Duration::from_micros),
    ]
}

/// The number of sub-buckets, or what is usual.
fn granularities() -> impl Strategy<Value = Option<u64>> + Clone {
    prop::option::of(prop_oneof![1..=10_u64, 11..=256_u64])
}

fn part_of(window: Duration, parts: u64) -> Duration {
    let micros = u64::try_from(window.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(micros.div_ceil(parts))
}

fn accepted<T>(asked: impl Strategy<Value = T> + Clone) -> impl Strategy<Value = Limit> + Clone
where
    T: std::fmt::Debug + Clone,
    Limit: TryFrom<T, Error = InvalidLimit>,
{
    asked.prop_filter_map("the limit is accepted", |asked| Limit::try_from(asked).ok())
}
