//! Numbers at the edges are refused or right: never a panic, never a wrap.
#![allow(clippy::unwrap_used, reason = "what a test is made of may panic")]

mod support;

use std::time::Duration;

use limiter_core::math::Draw;
use limiter_core::{
    Cost, FixedWindow, Key, Limit, MAX_UNITS, Plan, Rate, Refund, SlidingWindow, SuppressingWindow,
    Timestamp, TokenBucket,
};
use limiter_testkit::Model;
use proptest::prelude::*;
use support::{Desk, cost, plan, seeds, settings};

const UNITS: [u32; 11] = [
    0,
    1,
    2,
    1_000_003,
    999_999_999,
    MAX_UNITS,
    MAX_UNITS + 1,
    (1 << 31) - 1,
    1 << 31,
    u32::MAX - 1,
    u32::MAX,
];
const YEAR_US: u64 = 366 * 86_400_000_000;
const MICROS: [u64; 15] = [
    0,
    1,
    999,
    1_000,
    1_001,
    1 << 31,
    YEAR_US - 1,
    YEAR_US,
    YEAR_US + 1,
    1 << 52,
    (1 << 53) - 1,
    1 << 53,
    (1 << 53) + 1,
    u64::MAX - 1,
    u64::MAX,
];

fn moments() -> [Timestamp; 6] {
    let max = Timestamp::MAX.as_micros();
    [0, 1, 1 << 31, 1_767_268_800_000_000, max - 1, max]
        .map(|micros| Timestamp::from_micros(micros).unwrap())
}

/// Returns every limit that the edge numbers make, and checks what is accepted.
fn edge_limits() -> Vec<Limit> {
    let mut limits = Vec::new();
    for units in UNITS {
        for window in MICROS {
            let span = Duration::from_micros(window);
            let sensible = (1..=MAX_UNITS).contains(&units) && (1_000..=YEAR_US).contains(&window);
            let fixed = Limit::try_from(FixedWindow::new(units, span));
            assert_eq!(fixed.is_ok(), sensible, "{units} in {window} us");
            let sliding = Limit::try_from(SlidingWindow::new(units, span));
            assert_eq!(sliding.is_ok(), sensible, "{units} in {window} us");
            assert_eq!(Rate::new(units, span).is_ok(), sensible);
            for granularity in MICROS {
                let span_of_sub = Duration::from_micros(granularity);
                let sliding = SlidingWindow::new(units, span).with_granularity(span_of_sub);
                limits.extend(Limit::try_from(sliding));
                let soft = SuppressingWindow::new(units, span).with_granularity(span_of_sub);
                limits.extend(Limit::try_from(soft));
            }
            for hard in UNITS {
                let soft = SuppressingWindow::new(units, span).with_hard_limit(hard);
                let sensible = sensible && (units..=MAX_UNITS).contains(&hard);
                assert_eq!(Limit::try_from(soft).is_ok(), sensible);
                limits.extend(Limit::try_from(soft));
                let by_percent = SuppressingWindow::new(units, span).with_hard_percent(hard);
                limits.extend(Limit::try_from(by_percent));
            }
            for capacity in UNITS {
                let bucket = TokenBucket::new(units, span).with_capacity(capacity);
                let fill_us = u128::from(capacity) * u128::from(window);
                let sensible = sensible
                    && (1..=MAX_UNITS).contains(&capacity)
                    && fill_us.div_ceil(units.max(1).into()) < 1 << 52;
                assert_eq!(Limit::try_from(bucket).is_ok(), sensible, "{bucket:?}");
                limits.extend(Limit::try_from(bucket));
            }
            limits.extend(fixed);
            limits.extend(sliding);
        }
    }
    limits
}

/// Every limit at the edge answers like the model at every edge of time, for the smallest and the largest costs.
#[test]
fn edge_limits_are_right_at_every_edge_of_time() {
    let key = Key::new("key").unwrap();
    let limits = edge_limits();
    assert!(limits.len() > 400, "only {} limits", limits.len());
    for limit in limits {
        for now in moments() {
            let mut desk = Desk::of(limit);
            desk.now = now;
            let mut model = Model::default();
            let (max, mut charges) = (limit.max_cost(), Vec::new());
            for units in [1, max, max.div_ceil(2), max - max.div_ceil(2), 1] {
                let Ok(cost) = Cost::new(units) else { continue };
                let draw = Draw::from_random(u64::MAX);
                let said = desk.acquire(cost, draw);
                let expected = model.try_acquire(&key, &desk.plans, cost, now, draw);
                assert_eq!(said, expected, "{limit} at {now:?}");
                if said.admitted {
                    charges.push(Refund::of(&said, cost));
                }
            }
            for refund in charges {
                let (said, expected) = (
                    desk.refund(&refund),
                    model.refund(&key, &desk.plans, &refund, now),
                );
                assert_eq!(said, expected, "{limit} at {now:?}");
            }
            let is_observed = matches!(limit, Limit::SuppressingWindow(_));
            assert!(is_observed || desk.states == [None], "{limit} at {now:?}");
        }
    }
}

/// Durations of more than whole microseconds, and of more than 64 bits of them, are refused.
#[test]
fn odd_durations_are_refused() {
    for span in [
        Duration::from_nanos(1_000_001),
        Duration::MAX,
        Duration::from_secs(u64::MAX),
    ] {
        assert!(Limit::try_from(TokenBucket::new(1, span)).is_err());
        assert!(Limit::try_from(SlidingWindow::new(1, span)).is_err());
        assert!(Limit::try_from(FixedWindow::new(1, span)).is_err());
        assert!(Limit::try_from(SuppressingWindow::new(1, span)).is_err());
        assert!(Rate::new(1, span).is_err());
        let second = Duration::from_secs(1);
        let sliding = SlidingWindow::new(1, second).with_granularity(span);
        assert!(Limit::try_from(sliding).is_err());
        assert!(SlidingWindow::at("1/s".parse().unwrap(), span).is_err());
    }
}

#[test]
fn costs_and_timestamps_at_the_edges_are_refused_or_kept() {
    assert!(Cost::new(0).is_err());
    for units in UNITS.into_iter().skip(1) {
        assert_eq!(Cost::new(units).unwrap().get(), units);
    }
    for micros in MICROS {
        let moment = Timestamp::from_micros(micros);
        assert_eq!(moment.is_ok(), micros < 1 << 52, "{micros} us");
    }
}

proptest! {
    #![proptest_config(settings(seeds!("edges")))]

    #[test]
    fn prop_every_sensible_bucket_is_accepted(
        capacity in 1..=MAX_UNITS,
        refill in 1..=MAX_UNITS,
        period_us in prop_oneof![1_000..=YEAR_US, 1_000..=10_000_000_u64, Just(86_400_000_000_u64)],
    ) {
        let asked = TokenBucket::new(refill, Duration::from_micros(period_us)).with_capacity(capacity);
        let fill_us = (u128::from(capacity) * u128::from(period_us)).div_ceil(refill.into());
        prop_assert_eq!(Limit::try_from(asked).is_ok(), fill_us < 1 << 52);
        let natural = TokenBucket::new(refill, Duration::from_micros(period_us));
        prop_assert!(Limit::try_from(natural).is_ok(), "a bucket that fills in one period is sensible");
    }

    #[test]
    fn prop_every_sensible_window_is_accepted(units in 1..=MAX_UNITS, window_us in 1_000..=YEAR_US) {
        let window = Duration::from_micros(window_us);
        prop_assert!(Limit::try_from(SlidingWindow::new(units, window)).is_ok());
        prop_assert!(Limit::try_from(FixedWindow::new(units, window)).is_ok());
        let soft = SuppressingWindow::new(units, window).with_hard_limit(units);
        prop_assert!(Limit::try_from(soft).is_ok());
    }

    #[test]
    fn prop_any_numbers_are_refused_or_answered(
        capacity: u32,
        refill: u32,
        period_us: u64,
        now in 0..=Timestamp::MAX.as_micros(),
        units in 1..=u32::MAX,
    ) {
        let period = Duration::from_micros(period_us);
        let asked = [
            Plan::new("bucket", TokenBucket::new(refill, period).with_capacity(capacity)),
            Plan::new("sliding", SlidingWindow::new(capacity, period)),
            Plan::new("fixed", FixedWindow::new(capacity, period)),
            Plan::new("soft", SuppressingWindow::new(capacity, period).with_hard_percent(refill)),
        ];
        for plan in asked.into_iter().flatten() {
            let mut desk = Desk::new(vec![plan]);
            desk.now = Timestamp::from_micros(now).unwrap();
            let verdict = desk.acquire(cost(units), Draw::LOWEST);
            prop_assert_eq!(verdict.admitted, units <= desk.limit().max_cost());
        }
    }
}

/// The plan that names the issue: an odd number of tokens a day.
#[test]
fn a_million_and_three_a_day_is_a_plan() {
    let limit: Limit = "1000003/24h".parse().unwrap();
    let mut desk = Desk::new(vec![plan("odd", limit)]);
    assert!(desk.acquire(cost(1_000_003), Draw::LOWEST).admitted);
    let wait = desk.peek(cost(1)).retry_after;
    assert_eq!(wait.as_micros(), 86_400_000_000_u128.div_ceil(1_000_003));
}
