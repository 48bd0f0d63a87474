//! A chain is all or nothing, whatever the order of its plans.

mod support;

use limiter_core::math::Draw;
use limiter_core::{Limit, Plan};
use proptest::prelude::*;
use support::{Desk, asks, chains, seeds, settings};

proptest! {
    #![proptest_config(settings(seeds!("chain_order")))]

    #[test]
    fn prop_chain_is_all_or_nothing(plans in chains(), asks in asks()) {
        let mut desk = Desk::new(plans);
        for ask in asks {
            desk.advance(desk.gap_us(ask));
            let cost = desk.cost_of(ask);
            let before = desk.peek(cost);
            let verdict = desk.acquire(cost, Draw::LOWEST);
            let mut plans = desk.plans.iter().zip(&verdict.plans);
            let all = plans.all(|(plan, answer)| answer.admits || !plan.is_enforced());
            prop_assert_eq!(verdict.admitted, all);
            for (plan, (before, after)) in desk.plans.iter().zip(before.plans.iter().zip(&verdict.plans)) {
                let observes = matches!(plan.limit(), Limit::SuppressingWindow(_));
                let charged = observes || (verdict.admitted && after.admits);
                let spent = if charged { cost.get() } else { 0 };
                prop_assert_eq!(after.remaining, before.remaining.saturating_sub(spent), "{}", plan);
            }
        }
    }

    /// Each plan alone decides as it does in a chain: admitted by the chain is admitted by each.
    #[test]
    fn prop_chain_admits_what_each_of_its_plans_admits(plans in chains(), asks in asks()) {
        let mut chain = Desk::new(plans);
        for ask in asks {
            chain.advance(chain.gap_us(ask));
            let cost = chain.cost_of(ask);
            let each = chain.plans.iter().zip(&chain.states).map(|(plan, state)| {
                let plan = std::slice::from_ref(plan);
                limiter_core::math::peek(plan, std::slice::from_ref(state), chain.now, cost).admitted
            });
            let all = each.collect::<Vec<_>>().iter().all(|admitted| *admitted);
            prop_assert_eq!(chain.acquire(cost, Draw::LOWEST).admitted, all);
        }
    }

    #[test]
    fn prop_order_of_a_chain_does_not_matter(
        (plans, order) in chains().prop_flat_map(|plans| {
            let order: Vec<usize> = (0..plans.len()).collect();
            (Just(plans), Just(order).prop_shuffle())
        }),
        asks in asks(),
    ) {
        let shuffled: Vec<Plan> = order.iter().map(|nth| plans[*nth].clone()).collect();
        let (mut one, mut other) = (Desk::new(plans), Desk::new(shuffled));
        for ask in asks {
            one.advance(one.gap_us(ask));
            other.now = one.now;
            let cost = one.cost_of(ask);
            let draw = Draw::from_random(one.now.as_micros().wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let (straight, mut mixed) = (one.acquire(cost, draw), other.acquire(cost, draw));
            let answers = mixed.plans.clone();
            for (place, nth) in order.iter().enumerate() {
                mixed.plans[*nth] = answers[place];
                prop_assert_eq!(&other.states[place], &one.states[*nth]);
            }
            prop_assert_eq!(straight, mixed);
        }
    }

    #[test]
    fn prop_shadow_plans_never_deny(plans in chains(), asks in asks()) {
        let shadows = plans.into_iter().map(Plan::in_shadow).collect();
        let mut desk = Desk::new(shadows);
        for ask in asks {
            let (_, verdict) = desk.ask(ask);
            prop_assert!(verdict.admitted && verdict.retry_after.is_zero());
        }
    }
}
