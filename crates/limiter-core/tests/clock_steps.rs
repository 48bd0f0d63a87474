//! A clock that goes back counts as standing still: it grants nothing, and denies nothing that it would not have.

mod support;

use std::time::Duration;

use limiter_core::Limit;
use limiter_testkit::state_machine::{limits, sliding_windows, token_buckets};
use proptest::prelude::*;
use support::{Admission, Ask, Desk, asks, chains, seeds, settings, stretches};

/// Asks while the clock steps back now and then; time is what really passed.
fn admissions_of_a_stepping_clock(limit: Limit, asks: &[Ask], back_us: &[u64]) -> Vec<Admission> {
    let mut desk = Desk::of(limit);
    let mut admissions = Vec::new();
    for (nth, ask) in asks.iter().enumerate() {
        if let Some(back_us) = back_us.get(nth % 7) {
            desk.now = desk.now.saturating_sub(Duration::from_micros(*back_us));
        }
        admissions.extend(desk.admissions(std::slice::from_ref(ask)));
    }
    admissions
}

fn steps() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(
        prop_oneof![Just(0), 1..=1_000_u64, 1..=100_000_000_u64],
        1..=6,
    )
}

proptest! {
    #![proptest_config(settings(seeds!("clock_steps")))]

    #[test]
    fn prop_clock_step_back_grants_no_token(
        limit in token_buckets(),
        asks in asks(),
        back_us in steps(),
    ) {
        let Limit::TokenBucket(rule) = limit else { unreachable!() };
        let (units, period) = (u128::from(rule.rate().units()), u128::from(rule.rate().period_us()));
        let admissions = admissions_of_a_stepping_clock(limit, &asks, &back_us);
        for (length, sum) in stretches(&admissions) {
            let bound = u128::from(rule.capacity()) * period + u128::from(length) * units;
            prop_assert!(u128::from(sum) * period <= bound, "{sum} within {length} us");
        }
    }

    #[test]
    fn prop_clock_step_back_lets_no_unit_leave_early(
        limit in sliding_windows(),
        asks in asks(),
        back_us in steps(),
    ) {
        let Limit::SlidingWindow(rule) = limit else { unreachable!() };
        let admissions = admissions_of_a_stepping_clock(limit, &asks, &back_us);
        for (length, sum) in stretches(&admissions) {
            if length < rule.window_us() {
                prop_assert!(sum <= u64::from(rule.limit()), "{sum} within {length} us");
            }
        }
    }

    /// Right after a request, going back to any earlier time changes nothing but the waits, which get longer by that much.
    #[test]
    fn prop_clock_step_back_counts_as_standing_still(
        limit in limits(),
        asks in asks(),
        back_us in 1..=1_000_000_000_u64,
    ) {
        let mut desk = Desk::of(limit);
        let unused = Desk::of(limit);
        for ask in asks {
            let (cost, verdict) = desk.ask(ask);
            let still = desk.peek(cost);
            let mut behind = desk.clone();
            behind.now = desk.now.saturating_sub(Duration::from_micros(back_us));
            let stepped = behind.peek(cost);
            prop_assert!(verdict.admitted || stepped.admitted == still.admitted);
            if verdict.admitted {
                prop_assert_eq!(stepped.admitted, still.admitted);
                prop_assert_eq!(stepped.plans[0].remaining, still.plans[0].remaining);
                prop_assert_eq!(stepped.plans[0].suppression, still.plans[0].suppression);
                if !still.admitted {
                    let longer = still.retry_after + Duration::from_micros(back_us);
                    prop_assert_eq!(stepped.retry_after, longer);
                }
            }
            prop_assert!(stepped.plans[0].remaining <= unused.peek(cost).plans[0].remaining);
        }
    }

    /// A step back and forth again, with nothing asked in between, leaves no trace.
    #[test]
    fn prop_clock_step_back_and_forth_leaves_no_trace(
        plans in chains(),
        asks in asks(),
        back_us in 1..=1_000_000_000_u64,
    ) {
        let mut desk = Desk::new(plans);
        for ask in asks {
            let (cost, _) = desk.ask(ask);
            let before = desk.peek(cost);
            let mut behind = desk.clone();
            behind.now = desk.now.saturating_sub(Duration::from_micros(back_us));
            let _ = behind.peek(cost);
            behind.now = desk.now;
            prop_assert_eq!(behind.peek(cost), before);
        }
    }
}
