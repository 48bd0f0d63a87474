//! A plan that changes under way keeps what was spent, and never grants by that.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what a test is made of may panic"
)]

mod support;

use limiter_core::Limit;
use limiter_testkit::state_machine::{
    fixed_windows, limits, sliding_windows, suppressing_windows, token_buckets,
};
use proptest::prelude::*;
use support::{Admission, Ask, Desk, asks, plan, seeds, settings, stretches};

/// Asks under limits that change with every few requests.
fn admissions_under_changes(limits: &[Limit], asks: &[Ask]) -> Vec<Admission> {
    let mut desk = Desk::of(limits[0]);
    let mut admissions = Vec::new();
    for (nth, ask) in asks.iter().enumerate() {
        desk.plans[0] = plan("only", limits[nth / 3 % limits.len()]);
        admissions.extend(desk.admissions(std::slice::from_ref(ask)));
    }
    admissions
}

fn some(limits: impl Strategy<Value = Limit>) -> impl Strategy<Value = Vec<Limit>> {
    prop::collection::vec(limits, 2..=4)
}

fn of_one_algorithm() -> impl Strategy<Value = (Limit, Limit)> {
    prop_oneof![
        (token_buckets(), token_buckets()),
        (sliding_windows(), sliding_windows()),
        (suppressing_windows(), suppressing_windows()),
        (fixed_windows(), fixed_windows()),
    ]
}

fn of_two_algorithms() -> impl Strategy<Value = (Limit, Limit)> {
    let differ = |(before, after): &(Limit, Limit)| !before.is_same_algorithm(after);
    (limits(), limits()).prop_filter("of two algorithms", differ)
}

proptest! {
    #![proptest_config(settings(seeds!("plan_changes")))]

    /// At the moment of the change, what was spent counts against the new limit, to the unit.
    #[test]
    fn prop_plan_change_keeps_what_was_spent((before, after) in of_one_algorithm(), asks in asks()) {
        let mut desk = Desk::of(before);
        for ask in asks {
            let _ = desk.ask(ask);
        }
        let one = support::cost(1);
        let left = desk.peek(one).plans[0];
        desk.plans[0] = plan("only", after);
        let changed = desk.peek(one).plans[0];
        prop_assert!(!changed.restarted);
        prop_assert_eq!(changed.reset_after, left.reset_after);
        if left.remaining > 0 {
            let spent = before.units() - left.remaining;
            prop_assert_eq!(changed.remaining, after.units().saturating_sub(spent));
        } else {
            prop_assert!(changed.remaining <= after.units().saturating_sub(before.units()));
        }
    }

    #[test]
    fn prop_plan_change_never_grants_tokens(limits in some(token_buckets()), asks in asks()) {
        let capacity = limits.iter().map(Limit::units).max().unwrap();
        // The fastest of the rates, as (units, period).
        let rates = limits.iter().map(|limit| match limit {
            Limit::TokenBucket(rule) => (u128::from(rule.rate().units()), u128::from(rule.rate().period_us())),
            _ => unreachable!(),
        });
        let (units, period) = rates.max_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1))).unwrap();
        for (length, sum) in stretches(&admissions_under_changes(&limits, &asks)) {
            let bound = u128::from(capacity) * period + u128::from(length) * units;
            prop_assert!(u128::from(sum) * period <= bound, "{sum} within {length} us");
        }
    }

    #[test]
    fn prop_plan_change_never_grants_room_in_a_sliding_window(
        limits in some(sliding_windows()),
        asks in asks(),
    ) {
        let most = limits.iter().map(Limit::units).max().unwrap();
        let shortest = limits.iter().map(Limit::window).min().unwrap();
        for (length, sum) in stretches(&admissions_under_changes(&limits, &asks)) {
            if u128::from(length) < shortest.as_micros() {
                prop_assert!(sum <= u64::from(most), "{sum} within {length} us");
            }
        }
    }

    #[test]
    fn prop_plan_change_never_grants_room_in_a_suppressing_window(
        limits in some(suppressing_windows()),
        asks in asks(),
    ) {
        let hard = limits.iter().map(|limit| match limit {
            Limit::SuppressingWindow(rule) => rule.hard(),
            _ => unreachable!(),
        });
        let most = hard.max().unwrap();
        let shortest = limits.iter().map(Limit::window).min().unwrap();
        for (length, sum) in stretches(&admissions_under_changes(&limits, &asks)) {
            if u128::from(length) < shortest.as_micros() {
                prop_assert!(sum <= u64::from(most), "{sum} within {length} us");
            }
        }
    }

    #[test]
    fn prop_plan_change_never_grants_a_third_fixed_window(
        limits in some(fixed_windows()),
        asks in asks(),
    ) {
        let most = limits.iter().map(Limit::units).max().unwrap();
        let shortest = limits.iter().map(Limit::window).min().unwrap();
        for (length, sum) in stretches(&admissions_under_changes(&limits, &asks)) {
            if u128::from(length) < shortest.as_micros() {
                prop_assert!(sum <= 2 * u64::from(most), "{sum} within {length} us");
            }
        }
    }

    /// A plan of another algorithm starts afresh, and says so as long as what it left would have counted.
    #[test]
    fn prop_algorithm_change_restarts_and_says_so((before, after) in of_two_algorithms(), ask in asks()) {
        let mut desk = Desk::of(before);
        let (_, spent) = desk.ask(ask[0]);
        desk.plans[0] = plan("only", after);
        let one = support::cost(1);
        let told = desk.peek(one);
        prop_assert!(told.admitted && told.plans[0].restarted);
        prop_assert_eq!(told.plans[0].remaining, after.units());
        let outlived = desk.after(spent.plans[0].reset_after).peek(one);
        prop_assert!(!outlived.plans[0].restarted);
        let first = desk.acquire(one, limiter_core::math::Draw::LOWEST);
        prop_assert!(first.admitted && first.plans[0].restarted);
        prop_assert!(!desk.peek(one).plans[0].restarted);
    }
}
