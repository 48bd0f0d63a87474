//! What an answer promises is kept to the microsecond, and a denied request leaves no trace.

mod support;

use std::time::Duration;

use limiter_core::math::{BucketState, FixedState, State, WindowLog};
use limiter_core::{Cost, Limit};
use limiter_testkit::state_machine::limits;
use proptest::prelude::*;
use support::{Desk, asks, chains, seeds, settings};

const MICROSECOND: Duration = Duration::from_micros(1);

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

    /// What is given back is what was spent, at most, and gives no request room that it would not have had.
    #[test]
    fn prop_refund_gives_back_at_most_what_was_spent(limit in limits(), asks in asks()) {
        let mut desk = Desk::of(limit);
        for (nth, ask) in asks.into_iter().enumerate() {
            if nth % 3 < 2 {
                let _ = desk.ask(ask);
                continue;
            }
            let cost = desk.cost_of(ask);
            let before = desk.peek(cost).plans[0];
            let after = desk.refund(cost).plans[0];
            let given = limit.units().min(before.remaining.saturating_add(cost.get()));
            let is_observed = matches!(limit, Limit::SuppressingWindow(_));
            prop_assert!(after.remaining <= given);
            prop_assert!(is_observed || after.remaining == given);
            prop_assert!(after.reset_after <= before.reset_after);
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
            FixedState::from_parts(s.began(), s.ends_at_us(), s.used()).map(State::FixedWindow)
        }
    }
}
