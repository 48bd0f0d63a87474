//! What an answer promises is kept to the microsecond, and a denied request leaves no trace.

mod support;

use std::time::Duration;

use limiter_core::math::{BucketState, FixedState, State, WindowLog};
use limiter_core::{Cost, Limit, Refund};
use limiter_testkit::state_machine::limits;
use proptest::prelude::*;
use support::{Admission, Ask, Desk, asks, chains, seeds, settings, stretches};

const MICROSECOND: Duration = Duration::from_micros(1);

/// What was charged on a desk, and when by the time that has really passed.
#[derive(Default)]
struct Charges(Vec<(u64, Refund)>);

impl Charges {
    fn ask(&mut self, desk: &mut Desk, ask: Ask) {
        let (cost, verdict) = desk.ask(ask);
        if verdict.admitted {
            let charge = Refund::of(&verdict, cost);
            self.0.push((desk.passed_us, charge));
        }
    }

    /// Returns the refund of at most `units` of one of the last charges, if anything of it is left.
    fn part(&mut self, units: Cost) -> Option<Refund> {
        let back = usize::try_from(units.get() % 4).ok()?;
        let (_, charge) = self.0.iter_mut().rev().nth(back)?;
        let given_back = charge.given_back;
        let units = Cost::new(units.get().min(charge.charged.get() - given_back)).ok()?;
        charge.given_back += units.get();
        Some(charge.clone().part(given_back, units))
    }

    /// Returns what was never asked back.
    fn kept(&self) -> Vec<Admission> {
        let kept = self.0.iter().map(|(at_us, charge)| Admission {
            at_us: *at_us,
            cost: u64::from(charge.charged.get() - charge.given_back),
        });
        kept.collect()
    }
}

proptest! {
    #![proptest_config(settings(seeds!("promises")))]

    #[test]
    fn prop_retry_after_is_exact(limit in limits(), asks in asks()) {
        let mut desk = Desk::of(limit);
        for ask in asks {
            let (cost, verdict) = desk.ask(ask);
            prop_assert_eq!(verdict.admitted, verdict.retry_after.is_zero());
            prop_assert_eq!(verdict.retry_after, verdict.plans[0].retry_after);
            if verdict.admitted {
                continue;
            }
            is_admitted_exactly_after(&desk, cost, verdict.retry_after)?;
            // At the very moment at which units leave, the wait for the rest of them is exact, too.
            let (then, all) = (desk.after(verdict.retry_after), support::cost(limit.max_cost()));
            let told = then.peek(all);
            if !told.admitted {
                is_admitted_exactly_after(&then, all, told.retry_after)?;
            }
        }
    }

    #[test]
    fn prop_retry_after_of_a_chain_is_when_all_admit(plans in chains(), asks in asks()) {
        let mut desk = Desk::new(plans);
        for ask in asks {
            let (cost, verdict) = desk.ask(ask);
            if verdict.admitted {
                prop_assert!(verdict.retry_after.is_zero());
                continue;
            }
            let then = desk.after(verdict.retry_after).peek(cost);
            prop_assert!(then.admitted);
            for (plan, answer) in desk.plans.iter().zip(&verdict.plans) {
                prop_assert!(!plan.is_enforced() || answer.retry_after <= verdict.retry_after);
            }
            let now_free = verdict.plans.iter().map(|plan| plan.free_after_wait);
            prop_assert!(now_free.eq(then.plans.iter().map(|plan| plan.remaining)));
            prop_assert!(!desk.after(verdict.retry_after - MICROSECOND).peek(cost).admitted);
        }
    }

    /// After `reset_after` a plan is as good as unused, and one microsecond before it is not.
    #[test]
    fn prop_reset_after_is_exact(limit in limits(), asks in asks()) {
        let mut desk = Desk::of(limit);
        for ask in asks {
            let (cost, verdict) = desk.ask(ask);
            let reset_after = verdict.plans[0].reset_after;
            prop_assert!(!reset_after.is_zero(), "something was just spent or observed");
            let mut unused = Desk::of(limit);
            let then = desk.after(reset_after);
            unused.now = then.now;
            prop_assert_eq!(then.peek(cost), unused.peek(cost));
            let before = desk.after(reset_after - MICROSECOND).peek(cost);
            prop_assert!(before.plans[0].remaining < limit.units());
        }
    }

    #[test]
    fn prop_denied_leaves_state(plans in chains(), asks in asks()) {
        let mut desk = Desk::new(plans);
        for ask in asks {
            let before = desk.states.clone();
            let (_, verdict) = desk.ask(ask);
            let changes = desk.plans.iter().zip(before.iter().zip(&desk.states));
            for (plan, (before, after)) in changes {
                let observes = matches!(plan.limit(), Limit::SuppressingWindow(_));
                prop_assert!(verdict.admitted || observes || before == after);
            }
        }
    }

    #[test]
    fn prop_peek_foretells_and_changes_nothing(plans in chains(), asks in asks()) {
        let mut desk = Desk::new(plans);
        for ask in asks {
            let mut later = desk.clone();
            later.advance(desk.gap_us(ask));
            let told = later.peek(desk.cost_of(ask));
            prop_assert_eq!(&told, &later.peek(desk.cost_of(ask)));
            let (_, came) = desk.ask(ask);
            prop_assert!(came.admitted || !told.admitted, "a peek promises only what is certain");
            let chance = desk.plans.iter().any(|plan| matches!(plan.limit(), Limit::SuppressingWindow(_)));
            prop_assert!(chance || told.admitted == came.admitted);
            prop_assert!(chance || told.retry_after == came.retry_after);
        }
    }

    /// A refund gives back no more than it says, and makes nothing wait longer.
    #[test]
    fn prop_refund_gives_back_at_most_what_it_says(limit in limits(), asks in asks()) {
        let mut desk = Desk::of(limit);
        let mut charges = Charges::default();
        for (nth, ask) in asks.into_iter().enumerate() {
            if nth % 3 < 2 {
                charges.ask(&mut desk, ask);
                continue;
            }
            let Some(refund) = charges.part(desk.cost_of(ask)) else {
                continue;
            };
            let before = desk.peek(Cost::ONE).plans[0];
            let after = desk.refund(&refund).plans[0];
            let most = before.remaining.saturating_add(refund.units.get());
            prop_assert!(before.remaining <= after.remaining && after.remaining <= most);
            prop_assert!(after.reset_after <= before.reset_after);
        }
    }

    /// However charges and refunds alternate: what was charged and never given back keeps to the limit, as if nothing else had
    /// ever been there.
    #[test]
    fn prop_units_that_are_not_given_back_keep_to_the_limit(
        limit in limits(),
        asks in asks(),
        is_refund in prop::collection::vec(prop::bool::weighted(0.4), 50),
    ) {
        let mut desk = Desk::of(limit);
        let mut charges = Charges::default();
        for (ask, is_refund) in asks.into_iter().zip(is_refund) {
            if !is_refund {
                charges.ask(&mut desk, ask);
                continue;
            }
            desk.advance(desk.gap_us(ask));
            if let Some(refund) = charges.part(desk.cost_of(ask)) {
                let _ = desk.refund(&refund);
            }
        }
        for (length_us, sum) in stretches(&charges.kept()) {
            let (sum, units) = (u128::from(sum), u128::from(limit.units()));
            let window_us = limit.window().as_micros();
            match limit {
                Limit::TokenBucket(rule) => {
                    let rate = rule.stated_rate();
                    let refilled = u128::from(length_us) * u128::from(rate.units());
                    let token = u128::from(rate.period_us());
                    prop_assert!(sum * token <= units * token + refilled);
                }
                Limit::SlidingWindow(_) if u128::from(length_us) < window_us => {
                    prop_assert!(sum <= units);
                }
                Limit::FixedWindow(_) if u128::from(length_us) < window_us => {
                    prop_assert!(sum <= 2 * units);
                }
                _ => {}
            }
        }
    }

    /// Every state that the math makes can be taken apart and put together again.
    #[test]
    fn prop_states_survive_being_stored(plans in chains(), asks in asks()) {
        let mut desk = Desk::new(plans);
        for ask in asks {
            let _ = desk.ask(ask);
            for state in desk.states.iter().flatten() {
                prop_assert_eq!(Some(state.clone()), stored(state));
            }
        }
    }
}

fn is_admitted_exactly_after(desk: &Desk, cost: Cost, wait: Duration) -> Result<(), TestCaseError> {
    prop_assert!(!wait.is_zero(), "what is denied has to wait");
    prop_assert!(desk.after(wait).peek(cost).admitted);
    let early = desk.after(wait - MICROSECOND).peek(cost);
    prop_assert!(!early.admitted);
    prop_assert_eq!(early.retry_after, MICROSECOND);
    Ok(())
}

fn stored(state: &State) -> Option<State> {
    let log = |log: &WindowLog| {
        let sub_buckets = log.sub_buckets().to_vec();
        WindowLog::from_parts(log.seen(), log.newest_began(), log.kept_us(), sub_buckets)
    };
    match state {
        State::TokenBucket(s) => {
            BucketState::from_parts(s.seen(), s.full_at_us(), s.full_at_part(), s.rate())
                .map(State::TokenBucket)
        }
        State::SlidingWindow(sliding) => log(sliding).map(State::SlidingWindow),
        State::SuppressingWindow(observed) => log(observed).map(State::SuppressingWindow),
        State::FixedWindow(s) => {
            FixedState::from_windows(s.windows().iter().copied()).map(State::FixedWindow)
        }
    }
}
