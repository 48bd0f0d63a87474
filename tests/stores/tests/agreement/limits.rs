//! Limits at random: numbers of every size, each as likely as the next.

use std::time::Duration;

use fastrand::Rng;
use limiter_core::{FixedWindow, Limit, SlidingWindow, SuppressingWindow, TokenBucket};

/// A number of about equally many digits each time.
fn spread(rng: &mut Rng, most: u64) -> u64 {
    let bits = rng.u32(0..=63 - most.leading_zeros());
    rng.u64(1..=most.min((2 << bits) - 1))
}

pub(crate) fn units(rng: &mut Rng, most: u64) -> u32 {
    u32::try_from(spread(rng, most)).expect("few units")
}

fn period(rng: &mut Rng) -> Duration {
    let year_us = 366 * 24 * 3600 * 1_000_000;
    match rng.u8(0..4) {
        0 => Duration::from_millis(rng.u64(1..1000)),
        1 => Duration::from_secs(rng.u64(1..100)),
        _ => Duration::from_micros(spread(rng, year_us).max(1000)),
    }
}

pub(crate) fn token_bucket(rng: &mut Rng) -> Limit {
    loop {
        let refill = match rng.u8(0..3) {
            0 => 1,
            1 => units(rng, 100),
            _ => units(rng, 1_000_000_000),
        };
        let asked = TokenBucket::new(refill, period(rng)).with_capacity(units(rng, 1_000_000_000));
        if let Ok(limit) = Limit::try_from(asked) {
            return limit;
        }
    }
}

/// One that the scripts of few token buckets decide: a whole period for each token, and not too long.
pub(crate) fn compact_bucket(rng: &mut Rng) -> Limit {
    loop {
        let period_us = spread(rng, (1 << 32) - 1);
        let most = ((1 << 40) - 1) / period_us;
        let capacity = units(rng, most.min(1_000_000_000));
        let asked = TokenBucket::new(1, Duration::from_micros(period_us)).with_capacity(capacity);
        if let Ok(limit) = Limit::try_from(asked) {
            return limit;
        }
    }
}

/// One of a few whose rates are so far apart that what one lacks would take the other longer to refill than any bucket may.
pub(crate) fn bucket_far_from_others(rng: &mut Rng) -> Limit {
    let texts = [
        "100000/7d",
        "1/24h",
        "1000000000/s",
        "1000000000/366d",
        "7/366d burst 100",
        "3/10ms burst 1000000000",
    ];
    texts[rng.usize(0..texts.len())].parse().expect("a limit")
}

pub(crate) fn sliding_window(rng: &mut Rng) -> Limit {
    let window = period(rng);
    let granularity = window / rng.u32(1..50);
    let granularity = Duration::from_micros(granularity.as_micros().try_into().expect("short"));
    SlidingWindow::new(units(rng, 1000), window)
        .with_granularity(granularity)
        .try_into()
        .expect("a sound window")
}

pub(crate) fn suppressing_window(rng: &mut Rng) -> Limit {
    let soft = units(rng, 1000);
    SuppressingWindow::new(soft, period(rng))
        .with_hard_limit(soft + units(rng, 1000))
        .try_into()
        .expect("a sound window")
}

pub(crate) fn fixed_window(rng: &mut Rng) -> Limit {
    FixedWindow::new(units(rng, 1000), period(rng))
        .try_into()
        .expect("a sound window")
}

/// One of a few windows of which each lasts a few of the next one, and may hold more than one that holds it counts.
pub(crate) fn fixed_window_of_a_few(rng: &mut Rng) -> Limit {
    let window = Duration::from_micros(1000 * 5_u64.pow(rng.u32(0..6)));
    let most = [50, 1_000_000_000][rng.usize(0..2)];
    FixedWindow::new(units(rng, most), window)
        .try_into()
        .expect("a sound window")
}

pub(crate) fn any_limit(rng: &mut Rng) -> Limit {
    let make = [
        token_bucket,
        sliding_window,
        suppressing_window,
        fixed_window,
    ];
    make[rng.usize(0..4)](rng)
}
