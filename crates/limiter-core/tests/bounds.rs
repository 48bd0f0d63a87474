//! What is admitted never exceeds the bound of its algorithm, in any interval, whatever is asked when.

mod support;

use limiter_core::Limit;
use limiter_core::math::Draw;
use limiter_testkit::state_machine::{
    fixed_windows, sliding_windows, suppressing_windows, token_buckets,
};
use proptest::prelude::*;
use support::{Desk, asks, cost, seeds, settings, stretches};

proptest! {
    #![proptest_config(settings(seeds!("bounds")))]

    #[test]
    fn prop_token_bucket_never_exceeds_capacity_plus_refill(limit in token_buckets(), asks in asks()) {
        let Limit::TokenBucket(rule) = limit else { unreachable!() };
        let (units, period) = (u128::from(rule.rate().units()), u128::from(rule.rate().period_us()));
        for (length, sum) in stretches(&Desk::of(limit).admissions(&asks)) {
            let bound = u128::from(rule.capacity()) * period + u128::from(length) * units;
            prop_assert!(u128::from(sum) * period <= bound, "{sum} within {length} us");
        }
    }

    /// The exact bucket, step by step: its content as a fraction, filled by every microsecond that passes.
    #[test]
    fn prop_token_bucket_denies_only_what_the_exact_bucket_lacks(
        limit in token_buckets(),
        asks in asks(),
    ) {
        let Limit::TokenBucket(rule) = limit else { unreachable!() };
        let (units, period) = (u128::from(rule.rate().units()), u128::from(rule.rate().period_us()));
        let full = u128::from(rule.capacity()) * period;
        let mut content = full;
        let mut desk = Desk::of(limit);
        for ask in asks {
            content = full.min(content + u128::from(desk.gap_us(ask)) * units);
            let (cost, verdict) = desk.ask(ask);
            let price = u128::from(cost.get()) * period;
            prop_assert_eq!(verdict.admitted, price <= content);
            if verdict.admitted {
                content -= price;
            }
            prop_assert_eq!(u128::from(verdict.plans[0].remaining), content / period);
        }
    }

    #[test]
    fn prop_full_bucket_admits_exactly_its_capacity_at_one_instant(
        capacity in 1..=200_u32,
        limit in token_buckets(),
    ) {
        let Limit::TokenBucket(rule) = limit else { unreachable!() };
        let text = format!("{} burst {capacity}", rule.stated_rate());
        let Ok(limit) = text.parse() else { return Ok(()) };
        let mut desk = Desk::of(limit);
        let admitted = (0..2 * capacity).filter(|_| desk.acquire(cost(1), Draw::LOWEST).admitted);
        prop_assert_eq!(admitted.count(), usize::try_from(capacity).unwrap());
    }

    /// However often it is asked between, a bucket admits with the first asking after its token is there.
    #[test]
    fn prop_polling_never_starves(limit in token_buckets(), polls in 1..=300_u64) {
        let mut desk = Desk::of(limit);
        let all = cost(limit.max_cost());
        prop_assert!(desk.acquire(all, Draw::LOWEST).admitted);
        let wait = u64::try_from(desk.peek(cost(1)).retry_after.as_micros()).unwrap();
        for poll in 1..=polls {
            desk.advance(wait * poll / polls - wait * (poll - 1) / polls);
            let admitted = desk.acquire(cost(1), Draw::LOWEST).admitted;
            prop_assert_eq!(admitted, desk.passed_us == wait, "after {} us", desk.passed_us);
            if admitted {
                break;
            }
        }
    }

    #[test]
    fn prop_sliding_window_never_exceeds_its_limit_in_any_window(
        limit in sliding_windows(),
        asks in asks(),
    ) {
        let Limit::SlidingWindow(rule) = limit else { unreachable!() };
        for (length, sum) in stretches(&Desk::of(limit).admissions(&asks)) {
            if length < rule.window_us() {
                prop_assert!(sum <= u64::from(rule.limit()), "{sum} within {length} us");
            }
        }
    }

    #[test]
    fn prop_sliding_window_holds_a_unit_back_by_less_than_its_granularity(
        limit in sliding_windows(),
        asks in asks(),
    ) {
        let Limit::SlidingWindow(rule) = limit else { unreachable!() };
        let mut desk = Desk::of(limit);
        let mut spent: Vec<(u64, u64)> = Vec::new();
        for ask in asks {
            let (cost, verdict) = desk.ask(ask);
            let there_at = |kept_us: u64| {
                let there = spent.iter().filter(|(at_us, _)| at_us + kept_us > desk.passed_us);
                there.map(|(_, units)| units).sum::<u64>() + u64::from(cost.get())
            };
            let most = u64::from(rule.limit());
            prop_assert!(!verdict.admitted || there_at(rule.window_us()) <= most);
            prop_assert!(verdict.admitted || there_at(rule.window_us() + rule.granularity_us() - 1) > most);
            if verdict.admitted {
                spent.push((desk.passed_us, cost.get().into()));
            }
        }
    }

    #[test]
    fn prop_suppressing_window_never_exceeds_its_hard_limit_in_any_window(
        limit in suppressing_windows(),
        asks in asks(),
    ) {
        let Limit::SuppressingWindow(rule) = limit else { unreachable!() };
        for (length, sum) in stretches(&Desk::of(limit).admissions(&asks)) {
            if length < rule.soft().window_us() {
                prop_assert!(sum <= u64::from(rule.hard()), "{sum} within {length} us");
            }
        }
    }

    #[test]
    fn prop_fixed_window_never_exceeds_twice_its_limit_across_a_boundary(
        limit in fixed_windows(),
        asks in asks(),
    ) {
        let Limit::FixedWindow(rule) = limit else { unreachable!() };
        for (length, sum) in stretches(&Desk::of(limit).admissions(&asks)) {
            if length < rule.window_us() {
                prop_assert!(sum <= 2 * u64::from(rule.limit()), "{sum} within {length} us");
            }
        }
    }

    /// From the first request of a window to its end no more than the limit passes, and all of it does.
    #[test]
    fn prop_fixed_window_counts_from_its_first_request(limit in fixed_windows(), asks in asks()) {
        let Limit::FixedWindow(rule) = limit else { unreachable!() };
        let mut desk = Desk::of(limit);
        let (mut ends_at, mut used) = (0, 0);
        for ask in asks {
            let (cost, verdict) = desk.ask(ask);
            if desk.passed_us >= ends_at {
                used = 0;
            }
            let fits = used + cost.get() <= rule.limit();
            prop_assert_eq!(verdict.admitted, fits);
            if fits && used == 0 {
                ends_at = desk.passed_us + rule.window_us();
            }
            used += if fits { cost.get() } else { 0 };
            prop_assert_eq!(verdict.plans[0].remaining, rule.limit() - used);
        }
    }
}
