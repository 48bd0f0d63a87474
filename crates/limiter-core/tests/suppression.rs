//! The share of requests that a suppressing window refuses, and what a draw makes of it.

mod support;

use std::time::Duration;

use limiter_core::math::{Draw, Suppression};
use limiter_core::{Limit, RandomSource, SuppressingWindow, seconds};
use limiter_testkit::SeededRandom;
use limiter_testkit::state_machine::suppressing_windows;
use proptest::prelude::*;
use support::{Desk, asks, cost, seeds, settings};

/// Returns windows from a second to 366 days.
fn windows() -> impl Strategy<Value = Duration> {
    let common = [1, 2, 10, 60, 600, 3_600, 86_400, 30 * 86_400, 366 * 86_400];
    prop_oneof![
        prop::sample::select(common.to_vec()).prop_map(seconds),
        (1_000_000..=31_622_400_000_000_u64).prop_map(Duration::from_micros),
        (0..=24_u32, 1_000_000..=2_000_000_u64).prop_map(|(doubled, us)| Duration::from_micros(
            (us << doubled).min(31_622_400_000_000)
        )),
    ]
}

proptest! {
    #![proptest_config(settings(seeds!("suppression")))]

    /// All at once: the window's average is what is observed, and the last second holds all of it.
    #[test]
    fn prop_refused_share_is_one_minus_soft_rate_over_observed_rate(
        soft in 1..=1_000_u32,
        more in 1..=1_000_u32,
        before in 0..=2_000_u32,
        window_s in 1..=20_u32,
    ) {
        let asked = SuppressingWindow::new(soft, seconds(window_s)).with_hard_limit(soft + more);
        let mut desk = Desk::of(asked.try_into().unwrap());
        for _ in 0..before {
            let _ = desk.acquire(cost(1), Draw::LOWEST);
        }
        let verdict = desk.acquire(cost(1), Draw::LOWEST);
        let observed = u64::from(before) + 1;
        let share = verdict.plans[0].suppression.millionths();
        if observed <= soft.into() {
            prop_assert_eq!(share, 0);
        } else if observed >= (soft + more).into() {
            prop_assert_eq!(share, 1_000_000);
        } else {
            let rate_s = u64::from(soft) * 1_000_000 / u64::from(window_s) / observed;
            let average = u64::from(soft) * 1_000_000 / observed;
            prop_assert_eq!(u64::from(share), 1_000_000 - rate_s.min(average));
        }
    }

    /// Requests that come evenly, whatever the window and its granularity, against a list of the exact moments.
    #[test]
    fn prop_refused_share_of_even_requests_is_one_minus_soft_over_observed(
        soft in prop_oneof![1..=20_u32, 21..=300_u32],
        load_percent in 101..=400_u32,
        window in windows(),
        parts in prop::option::of(1..=100_u32),
        each in 1..=3_u32,
        first_us in 0..1_000_000_u64,
    ) {
        let each = each.min(soft);
        let asked = SuppressingWindow::new(soft, window).with_hard_limit(soft * 100);
        let default_us = u64::try_from(window.as_micros()).unwrap() / 100;
        let granularity_us = parts.map_or(default_us, |parts| default_us * 100 / u64::from(parts));
        let asked = asked.with_granularity(Duration::from_micros(granularity_us));
        let mut desk = Desk::of(asked.try_into().unwrap());
        let window_us = u64::try_from(window.as_micros()).unwrap();
        let gap_us = window_us * u64::from(each) * 100 / (u64::from(soft) * u64::from(load_percent));
        desk.advance(first_us);
        let mut moments = Vec::new();
        while moments.len() < 3_000 && desk.passed_us < first_us + 3 * window_us {
            moments.push(desk.passed_us);
            let f = desk.acquire(cost(each), Draw::LOWEST).plans[0].suppression.millionths();
            let within = |us| moments.iter().filter(|at| **at + us > desk.passed_us).count();
            let there = within(window_us);
            // All that is in a window of little more than a second may have come within the last one: that is the rate then.
            let span_us = if within(1_000_000) == there { window_us.min(1_000_000) } else { window_us };
            let observed = u64::try_from(there).unwrap() * u64::from(each);
            if desk.passed_us >= first_us + window_us {
                let passing = u128::from(soft) * u128::from(span_us) * 1_000_000
                    / (u128::from(window_us) * u128::from(observed));
                let expected = 1_000_000_u64.saturating_sub(u64::try_from(passing).unwrap());
                let coarse = granularity_us.saturating_sub(default_us) > 0;
                let allowed = 20_000 + if coarse { granularity_us * 500_000 / default_us / 100 } else { 0 };
                prop_assert!(
                    u64::from(f).abs_diff(expected) <= allowed,
                    "{f} of {expected} at {observed} under {}", desk.limit()
                );
            }
            desk.advance(gap_us);
        }
    }

    #[test]
    fn prop_draw_decides_by_the_refused_share(limit in suppressing_windows(), asks in asks()) {
        let mut desk = Desk::of(limit);
        for ask in asks {
            let told = desk.clone();
            let (cost, verdict) = desk.ask(ask);
            let refused = verdict.plans[0].suppression.millionths();
            for draw in [0, refused.saturating_sub(1), refused, 999_999] {
                let mut again = told.clone();
                again.now = desk.now;
                let bits = ((u128::from(draw) << 64) / 1_000_000 + 1).min(u64::MAX.into());
                let draw = Draw::from_random(u64::try_from(bits).unwrap());
                let answer = again.acquire(cost, draw);
                prop_assert_eq!(answer.plans[0].suppression.millionths(), refused);
                prop_assert_eq!(answer.admitted, draw.get() >= refused);
            }
        }
    }

    /// The more is asked for, the more is refused.
    #[test]
    fn prop_refused_share_grows_with_what_is_observed(limit in suppressing_windows(), count in 1..=60_u32) {
        let mut desk = Desk::of(limit);
        let units = cost((limit.max_cost() / 10).max(1));
        let mut last = Suppression::NONE;
        for _ in 0..count {
            let share = desk.acquire(units, Draw::LOWEST).plans[0].suppression;
            prop_assert!(share >= last);
            last = share;
        }
    }

    #[test]
    fn prop_draws_are_spread_over_their_range(bits: u64) {
        let draw = Draw::from_random(bits).get();
        prop_assert_eq!(u128::from(draw), u128::from(bits) * 1_000_000 / (1 << 64));
        prop_assert_eq!(Suppression::from_millionths(draw).millionths(), draw);
    }
}

/// At 1.1 times the soft rate ten of eleven requests pass, however long the window is.
#[test]
fn a_tenth_above_the_soft_rate_a_long_window_refuses_one_request_of_eleven() {
    for text in [
        "1000/10s",
        "1000/10min",
        "10000/h",
        "100000/24h",
        "1000/10s hard 10000 every 10s",
    ] {
        let limit: Limit = format!("suppressing {text}").parse().unwrap();
        let mut desk = Desk::of(limit);
        let gap_us =
            u64::try_from(limit.window().as_micros()).unwrap() * 10 / 11 / u64::from(limit.units());
        let asked = u64::from(limit.units()) * 11 / 5;
        let mut refused = 0;
        for nth in 0..asked {
            let verdict = desk.acquire(cost(1), Draw::LOWEST);
            if nth >= asked / 2 {
                refused += u64::from(verdict.plans[0].suppression.millionths());
            }
            desk.advance(gap_us);
        }
        let mean = refused / (asked / 2);
        assert!(
            (85_000..=97_000).contains(&mean),
            "{mean} millionths under {limit}"
        );
    }
}

/// Of many requests at one and the same observed rate, the stated share is refused.
#[test]
fn stated_share_is_refused_in_the_long_run() {
    let limit: Limit = "suppressing 100/s hard 1000".parse().unwrap();
    let mut loaded = Desk::of(limit);
    for _ in 0..399 {
        let _ = loaded.acquire(cost(1), Draw::LOWEST);
    }
    let random = SeededRandom::new(2026);
    let admitted = (0..20_000).filter(|_| {
        let draw = Draw::from_random(random.next_u64());
        loaded.clone().acquire(cost(1), draw).admitted
    });
    let admitted = admitted.count();
    assert!(
        (4_800..=5_200).contains(&admitted),
        "{admitted} of 20000 at a share of a quarter"
    );
}

#[test]
fn shares_beyond_all_are_all() {
    assert_eq!(Suppression::from_millionths(u32::MAX), Suppression::ALL);
    assert_eq!(Draw::from_random(u64::MAX).get(), 999_999);
    assert_eq!(Draw::from_random(0), Draw::LOWEST);
}
