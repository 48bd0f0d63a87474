//! A plan that changes under way keeps what was spent, and never grants by that.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "what a test is made of may panic, and its paces are round"
)]

mod support;

use limiter_core::math::Draw;
use limiter_core::{Cost, Limit, Refund};
use limiter_testkit::state_machine::{
    fixed_windows, limits, sliding_windows, suppressing_windows, token_buckets,
};
use proptest::prelude::*;
use support::{Admission, Ask, Desk, asks, plan, seeds, settings, stretches};

/// Asks under limits that change with every few requests, with every one if `each_call`.
fn admissions_under_changes(limits: &[Limit], asks: &[Ask], each_call: bool) -> Vec<Admission> {
    let mut desk = Desk::of(limits[0]);
    let mut admissions = Vec::new();
    for (nth, ask) in asks.iter().enumerate() {
        let turn = if each_call { nth } else { nth / 3 };
        desk.plans[0] = plan("only", limits[turn % limits.len()]);
        admissions.extend(desk.admissions(std::slice::from_ref(ask)));
    }
    admissions
}

fn some(limits: impl Strategy<Value = Limit>) -> impl Strategy<Value = Vec<Limit>> {
    prop::collection::vec(limits, 2..=4)
}

fn of_two_algorithms() -> impl Strategy<Value = (Limit, Limit)> {
    let differ = |(before, after): &(Limit, Limit)| !before.is_same_algorithm(after);
    (limits(), limits()).prop_filter("of two algorithms", differ)
}

fn some_of_one_algorithm() -> impl Strategy<Value = Vec<Limit>> {
    prop_oneof![
        some(token_buckets()),
        some(sliding_windows()),
        some(suppressing_windows()),
        some(fixed_windows()),
        some(fixed_windows_of_one_size()),
    ]
}

/// Fixed windows that are a few of a kind: with one request after another, each of them ends while others run.
fn fixed_windows_of_one_size() -> impl Strategy<Value = Limit> {
    (1..=6_u32, 1..=12_u32).prop_map(|(limit, window_ms)| {
        let text = format!("fixed {limit}/{window_ms}ms");
        text.parse().unwrap()
    })
}

/// The law of a fixed window, whatever other plans are in use beside it: what is admitted under it in any time shorter than its
/// window is at most twice its limit.
fn keeps_to_twice_its_limit(limit: &Limit, admissions: &[Admission]) -> Result<(), String> {
    for (length, sum) in stretches(admissions) {
        if u128::from(length) < limit.window().as_micros() && sum > 2 * u64::from(limit.units()) {
            return Err(format!("{sum} within {length} us under {limit}"));
        }
    }
    Ok(())
}

/// Returns the most that a limit admits at once, and the units in how many microseconds that it admits in the long run.
fn bound_of(limit: &Limit) -> (u128, u128, u128) {
    match limit {
        Limit::TokenBucket(rule) => {
            let (units, period) = (rule.rate().units(), rule.rate().period_us());
            (rule.capacity().into(), units.into(), period.into())
        }
        Limit::SlidingWindow(rule) => {
            let limit = u128::from(rule.limit());
            (limit, limit, rule.window_us().into())
        }
        Limit::SuppressingWindow(rule) => {
            let hard = u128::from(rule.hard());
            (hard, hard, rule.soft().window_us().into())
        }
        _ => unreachable!("no law of {limit}"),
    }
}

/// The law, for any sequence of plans: in any interval at most the largest capacity and what the largest rate brings in it.
fn is_within_the_law(limits: &[Limit], admissions: &[Admission]) -> Result<(), String> {
    let bounds = limits.iter().map(bound_of);
    let capacity = bounds.clone().map(|bound| bound.0).max().unwrap();
    let rates = bounds.map(|(_, units, period)| (units, period));
    let (units, period) = rates.max_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1))).unwrap();
    // The most by which any interval that ends here is ahead of what the rate brought in it.
    let (mut ahead, mut at_us) = (0_u128, 0);
    for admission in admissions {
        ahead = ahead.saturating_sub(u128::from(admission.at_us - at_us) * units);
        ahead += u128::from(admission.cost) * period;
        at_us = admission.at_us;
        if ahead > capacity * period {
            return Err(format!("{admission:?} is too much under {limits:?}"));
        }
    }
    Ok(())
}

/// Returns how long after its last charge a plan alone would admit a request, had it been empty then.
fn wait_from_empty_us(limit: &Limit, cost: u32) -> u128 {
    match limit {
        Limit::TokenBucket(rule) => {
            let (units, period) = (rule.rate().units(), rule.rate().period_us());
            (u128::from(cost) * u128::from(period)).div_ceil(units.into())
        }
        window => window.window().as_micros(),
    }
}

proptest! {
    #![proptest_config(settings(seeds!("plan_changes")))]

    #[test]
    fn prop_changed_buckets_stay_within_the_law(
        limits in some(token_buckets()),
        asks in asks(),
        each_call: bool,
    ) {
        let admissions = admissions_under_changes(&limits, &asks, each_call);
        is_within_the_law(&limits, &admissions).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn prop_changed_sliding_windows_stay_within_the_law(
        limits in some(sliding_windows()),
        asks in asks(),
        each_call: bool,
    ) {
        let admissions = admissions_under_changes(&limits, &asks, each_call);
        is_within_the_law(&limits, &admissions).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn prop_changed_suppressing_windows_stay_within_the_law(
        limits in some(suppressing_windows()),
        asks in asks(),
        each_call: bool,
    ) {
        let admissions = admissions_under_changes(&limits, &asks, each_call);
        is_within_the_law(&limits, &admissions).map_err(TestCaseError::fail)?;
    }

    /// What a plan is changed to admits no later than it would alone, had it been empty at the last charge.
    #[test]
    fn prop_changed_plan_admits_no_later_than_from_empty_at_the_last_charge(
        limits in some_of_one_algorithm(),
        asks in asks(),
    ) {
        let mut desk = Desk::of(limits[0]);
        let mut charged_at = desk.now;
        for (nth, ask) in asks.into_iter().enumerate() {
            desk.plans[0] = plan("only", limits[nth % limits.len()]);
            let (cost, verdict) = desk.ask(ask);
            let is_observed = matches!(desk.limit(), Limit::SuppressingWindow(_));
            if !verdict.admitted {
                let since = if is_observed { desk.now } else { charged_at };
                let latest = u128::from(since.as_micros()) + wait_from_empty_us(desk.limit(), cost.get());
                let told = u128::from(desk.now.as_micros()) + verdict.retry_after.as_micros();
                prop_assert!(told <= latest, "{told} and not {latest} under {}", desk.limit());
            }
            if verdict.admitted || is_observed {
                charged_at = desk.now;
            }
        }
    }

    /// A state that has run out under the plan that left it is absent: a store that frees it then answers no differently.
    #[test]
    fn prop_changed_plan_answers_the_same_whether_or_not_its_state_has_expired(
        limits in some_of_one_algorithm(),
        asks in asks(),
    ) {
        let mut kept = Desk::of(limits[0]);
        let mut freed = Desk::of(limits[0]);
        for (nth, ask) in asks.into_iter().enumerate() {
            for desk in [&mut kept, &mut freed] {
                desk.plans[0] = plan("only", limits[nth % limits.len()]);
                desk.advance(desk.gap_us(ask));
            }
            freed.states[0].take_if(|state| state.expires_at_us() <= freed.now.as_micros());
            let cost = kept.cost_of(ask);
            let draw = Draw::from_random(0);
            prop_assert_eq!(kept.acquire(cost, draw), freed.acquire(cost, draw));
        }
    }

    /// A refund under a plan that has changed since the charge, however often, makes nothing wait longer and gives back at most
    /// what it says; unless what is left has run out by then under the plans that it was charged under, and so is absent.
    #[test]
    fn prop_refund_under_a_changed_plan_gives_back_at_most_what_it_says(
        limits in some_of_one_algorithm(),
        asks in asks(),
    ) {
        let mut desk = Desk::of(limits[0]);
        let mut charges: Vec<Refund> = Vec::new();
        for (nth, ask) in asks.into_iter().enumerate() {
            desk.plans[0] = plan("only", limits[nth / 2 % limits.len()]);
            if nth % 3 < 2 {
                let (cost, verdict) = desk.ask(ask);
                charges.extend(verdict.admitted.then(|| Refund::of(&verdict, cost)));
                continue;
            }
            desk.advance(desk.gap_us(ask) / 10);
            let Some(charge) = charges.pop() else { continue };
            let before = desk.peek(Cost::ONE).plans[0];
            let after = desk.refund(&charge).plans[0];
            let most = before.remaining.saturating_add(charge.units.get());
            let state = desk.states[0].as_ref();
            let runs = state.is_some_and(|state| state.expires_at_us() > desk.now.as_micros());
            prop_assert!(before.remaining <= after.remaining);
            prop_assert!(after.remaining <= most || !runs);
            prop_assert!(after.reset_after <= before.reset_after);
        }
    }

    #[test]
    fn prop_changed_plan_writes_nothing_on_a_denial(
        limits in prop_oneof![some(token_buckets()), some(sliding_windows()), some(fixed_windows())],
        asks in asks(),
    ) {
        let mut desk = Desk::of(limits[0]);
        for (nth, ask) in asks.into_iter().enumerate() {
            desk.plans[0] = plan("only", limits[nth % limits.len()]);
            let before = desk.states.clone();
            if !desk.ask(ask).1.admitted {
                prop_assert_eq!(&desk.states, &before);
            }
        }
    }

    /// A bucket that was used up refills at the rate that it got since it was used up, until it runs out under the old rate.
    #[test]
    fn prop_changed_bucket_refills_from_its_last_charge_at_the_new_rate(
        before in token_buckets(),
        after in token_buckets(),
        spent in 1..=1_000_000_000_u32,
        thousandths in 0..=999_u32,
    ) {
        let mut desk = Desk::of(before);
        let spent = spent.min(before.units());
        let left = desk.acquire(support::cost(spent), Draw::LOWEST).plans[0].reset_after;
        let gap_us = u64::try_from(left.as_micros() * u128::from(thousandths) / 1_000).unwrap();
        desk.advance(gap_us);
        desk.plans[0] = plan("only", after);
        let (capacity, units, period) = bound_of(&after);
        let missing = u128::from(spent).min(capacity) * period;
        let missing = missing.saturating_sub(u128::from(gap_us) * units).div_ceil(period);
        let same_rate = bound_of(&before).1 * period == units * bound_of(&before).2;
        let expected = if left.is_zero() && same_rate { capacity } else { capacity - missing };
        let told = desk.peek(support::cost(1)).plans[0];
        prop_assert_eq!(u128::from(told.remaining), expected);
    }

    /// Each of a few plans in any order, as releases with different ones take turns: what it admits keeps to its own bound.
    #[test]
    fn prop_each_changed_fixed_window_admits_at_most_twice_its_limit_in_its_window(
        limits in prop_oneof![some(fixed_windows()), some(fixed_windows_of_one_size())],
        turns in prop::collection::vec(0..4_usize, 50),
        asks in asks(),
    ) {
        let mut desk = Desk::of(limits[0]);
        let mut admissions = vec![Vec::new(); limits.len()];
        for (ask, turn) in asks.iter().zip(turns) {
            let turn = turn % limits.len();
            desk.plans[0] = plan("only", limits[turn]);
            admissions[turn].extend(desk.admissions(std::slice::from_ref(ask)));
        }
        for (limit, admissions) in limits.iter().zip(&admissions) {
            keeps_to_twice_its_limit(limit, admissions).map_err(TestCaseError::fail)?;
        }
    }

    #[test]
    fn prop_plan_change_never_grants_a_third_fixed_window(
        limits in some(fixed_windows()),
        asks in asks(),
    ) {
        let most = limits.iter().map(Limit::units).max().unwrap();
        let shortest = limits.iter().map(Limit::window).min().unwrap();
        for (length, sum) in stretches(&admissions_under_changes(&limits, &asks, true)) {
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

/// Two releases with two plans, called in turn at an even pace: the units admitted in so many seconds.
fn admitted_in_turn(limits: [&str; 2], calls_a_second: f64, seconds: u32) -> Vec<Admission> {
    let limits = limits.map(|text| text.parse::<Limit>().unwrap());
    let mut desk = Desk::of(limits[0]);
    let mut admissions = Vec::new();
    for nth in 0..(f64::from(seconds) * calls_a_second) as u32 {
        let moment_us = (f64::from(nth) * 1e6 / calls_a_second) as u64;
        desk.advance(moment_us - desk.passed_us);
        desk.plans[0] = plan("only", limits[nth as usize % 2]);
        if desk.acquire(support::cost(1), Draw::LOWEST).admitted {
            let at_us = desk.passed_us;
            admissions.push(Admission { at_us, cost: 1 });
        }
    }
    is_within_the_law(&limits, &admissions).unwrap();
    admissions
}

/// While a release rolls out, a small change of a rate costs next to nothing.
#[test]
fn two_rates_in_alternation_admit_nearly_all_of_the_slower_one() {
    for (limits, calls_a_second, least) in [
        (["10/s", "10.001/s"], 10.1, 9.9),
        (["10/s burst 1", "10.001/s burst 1"], 10.0, 9.9),
        (["1000/s", "1000.1/s"], 1_010.0, 990.0),
        (["1000000/s", "999999/s"], 3_000.0, 2_999.0),
        // A window of ten alone admits ten of eleven here.
        (["sliding 10/s", "sliding 10/1001ms"], 10.1, 9.1),
        (["10/s burst 1000", "10/s burst 10"], 10.1, 9.9),
    ] {
        let seconds = 60;
        let admitted = admitted_in_turn(limits, calls_a_second, seconds).len();
        let rate = admitted as f64 / f64::from(seconds);
        assert!(rate >= least, "{rate} a second under {limits:?}");
    }
}

/// A burst that one release allows is not granted again by the other, nor after it.
#[test]
fn two_bursts_in_alternation_stay_within_the_law() {
    for limits in [
        ["10/s burst 1000", "10/s burst 10"],
        ["1000/h", "10/min"],
        ["100000/24h", "1/h"],
        ["100000/7d", "1/24h"],
        ["sliding 1000/h", "sliding 10/min"],
        ["sliding 100/100s", "sliding 1/s"],
        ["suppressing 100/100s hard 100", "suppressing 1/s hard 1"],
    ] {
        for calls_a_second in [0.3, 7.0, 500.0] {
            admitted_in_turn(
                limits,
                calls_a_second,
                4_000.min((20_000.0 / calls_a_second) as u32),
            );
        }
    }
}

/// Releases with fixed windows of their own take turns: none of the windows is forgotten for the others.
#[test]
fn fixed_windows_in_alternation_keep_to_their_limits() {
    for (limits, every_s) in [
        (
            &["fixed 1000/h", "fixed 10/min"][..],
            &[1, 20, 59, 60, 61][..],
        ),
        (
            &[
                "fixed 4096/216min",
                "fixed 512/36min",
                "fixed 64/6min",
                "fixed 8/min",
            ],
            &[7, 61, 177],
        ),
    ] {
        for (every_s, at_once) in every_s
            .iter()
            .flat_map(|every_s| [(*every_s, 1), (*every_s, 1_000_000)])
        {
            let limits: Vec<Limit> = limits.iter().map(|text| text.parse().unwrap()).collect();
            let mut desk = Desk::of(limits[0]);
            let (mut all, mut each) = (Vec::new(), vec![Vec::new(); limits.len()]);
            for _ in 0..20_000 / every_s {
                for (limit, admissions) in limits.iter().zip(&mut each) {
                    desk.plans[0] = plan("only", *limit);
                    let left = desk.peek(Cost::ONE).plans[0].remaining.min(at_once);
                    let Ok(cost) = Cost::new(left) else { continue };
                    assert!(desk.acquire(cost, Draw::LOWEST).admitted);
                    let (at_us, cost) = (desk.passed_us, left.into());
                    admissions.push(Admission { at_us, cost });
                    all.push(Admission { at_us, cost });
                }
                desk.advance(every_s * 1_000_000);
            }
            for (limit, admissions) in limits.iter().zip(&each) {
                keeps_to_twice_its_limit(limit, admissions).unwrap();
            }
            // All together, in the longest window: twice the largest limit, and what the largest rate brings meanwhile.
            let most = 3 * u64::from(limits[0].units());
            for (length, sum) in stretches(&all) {
                let within = u128::from(length) < limits[0].window().as_micros();
                assert!(
                    !within || sum <= most,
                    "{sum} within {length} us, every {every_s} s"
                );
            }
        }
    }
}

/// A debt that takes longer to refill at the slower rate than any bucket may is not forgotten by that: not with one spend of
/// the slower plan a day, nor when the faster one comes back.
#[test]
fn a_debt_that_is_too_long_for_a_slower_rate_is_kept_whole() {
    for (limits, calls, every_us) in [
        (["100000/7d", "1/24h"], 40, 86_400_000_000),
        (
            ["1000000000/s", "1/366d burst 100"],
            4,
            366 * 86_400_000_000,
        ),
        (
            ["1000000000/366d", "1/366d burst 100"],
            4,
            366 * 86_400_000_000,
        ),
        (
            ["1000003/7d burst 999999", "7/30d burst 3"],
            40,
            5 * 86_400_000_000,
        ),
    ] {
        let limits = limits.map(|text| text.parse::<Limit>().unwrap());
        let mut desk = Desk::of(limits[0]);
        let mut admissions = Vec::new();
        for _ in 0..calls {
            // The slower one first: its charge writes down what the faster one finds.
            for limit in [limits[1], limits[0]] {
                desk.plans[0] = plan("only", limit);
                let left = desk.peek(Cost::ONE).plans[0].remaining;
                let Ok(cost) = Cost::new(left) else { continue };
                assert!(desk.acquire(cost, Draw::LOWEST).admitted);
                let (at_us, cost) = (desk.passed_us, left.into());
                admissions.push(Admission { at_us, cost });
                is_within_the_law(&limits, &admissions).unwrap();
            }
            desk.advance(every_us);
        }
    }
}

/// A daily plan that is used up frees its key as soon as the plan that it is changed to would.
#[test]
fn loosened_plan_lets_an_exhausted_key_in() {
    for (before, after, wait_us) in [
        ("1/24h", "1000/s burst 1", 1_000),
        ("fixed 10/24h", "fixed 10/s", 1_000_000),
        ("sliding 10/24h", "sliding 10/s", 1_000_000),
        (
            "suppressing 10/24h hard 10",
            "suppressing 10/s hard 10",
            1_000_000,
        ),
    ] {
        let mut desk = Desk::of(before.parse().unwrap());
        while desk.acquire(support::cost(1), Draw::LOWEST).admitted {}
        desk.plans[0] = plan("only", after.parse().unwrap());
        let denied = desk.peek(support::cost(1));
        assert_eq!(
            denied.retry_after.as_micros(),
            wait_us,
            "{before} to {after}"
        );
        assert!(
            desk.after(denied.retry_after)
                .peek(support::cost(1))
                .admitted
        );
    }
}

/// A plan that is used up and made slower grants nothing of what the old rate would have brought, until it has run out.
#[test]
fn tightened_plan_refills_at_its_own_rate() {
    let mut desk = Desk::of("10/s".parse().unwrap());
    let _ = desk.acquire(support::cost(10), Draw::LOWEST);
    desk.plans[0] = plan("only", "10/24h".parse().unwrap());
    desk.advance(500_000);
    let told = desk.peek(support::cost(1));
    assert_eq!((told.admitted, told.plans[0].remaining), (false, 0));
    desk.advance(499_999);
    assert!(!desk.peek(support::cost(1)).admitted);
}

/// Every history of a few steps under two small plans, with every wait and cost between them.
struct Search {
    limits: [Limit; 2],
    waits_us: &'static [u64],
    costs: &'static [u32],
    histories: u32,
}

impl Search {
    fn from(&mut self, desk: &Desk, admissions: &mut Vec<Admission>, steps: u32) {
        if steps == 0 {
            self.histories += 1;
            return;
        }
        for limit in self.limits {
            for &wait_us in self.waits_us {
                for &cost in self.costs {
                    let mut desk = desk.clone();
                    desk.advance(wait_us);
                    desk.plans[0] = plan("only", limit);
                    let cost = cost.min(limit.max_cost());
                    let admitted = desk.acquire(support::cost(cost), Draw::LOWEST).admitted;
                    if admitted {
                        let (at_us, cost) = (desk.passed_us, cost.into());
                        admissions.push(Admission { at_us, cost });
                        is_within_the_law(&self.limits, admissions).unwrap();
                    }
                    self.from(&desk, admissions, steps - 1);
                    if admitted {
                        admissions.pop();
                    }
                }
            }
        }
    }
}

#[test]
fn no_short_history_under_two_small_plans_breaks_the_law() {
    for (one, other) in [
        ("1/2ms burst 3", "1/3ms burst 1"),
        ("2/3ms burst 2", "1/1ms burst 1"),
        ("1/1ms burst 2", "1/4ms burst 4"),
        ("3/4ms burst 3", "2/3ms burst 3"),
        ("sliding 3/6ms every 1us", "sliding 1/2ms every 1us"),
        ("sliding 2/3ms every 1us", "sliding 3/5ms every 1us"),
        ("sliding 2/2ms every 1ms", "sliding 4/6ms every 2ms"),
    ] {
        let limits = [one, other].map(|text| text.parse::<Limit>().unwrap());
        let mut search = Search {
            limits,
            waits_us: &[0, 1_000, 2_000, 3_500],
            costs: &[1, 3],
            histories: 0,
        };
        search.from(&Desk::of(limits[0]), &mut Vec::new(), 4);
        assert_eq!(search.histories, 16_u32.pow(4));
    }
}
