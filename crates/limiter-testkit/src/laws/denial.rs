//! A denied call, a peek and a refused call leave the state as it was.

use std::time::Duration;

use limiter_core::{InvalidRequest, MAX_CHAIN, Plan, Refund, Source, Timestamp};

use super::probe::{Probe, cost, each_algorithm, each_unobserving, key, only, plan, refusal};
use crate::StoreUnderTest;

/// A key that was denied many times answers like one that never was: at once, and ever after.
pub async fn denied_call_leaves_state_unchanged(sut: &impl StoreUnderTest) {
    for plan in each_unobserving(10) {
        let probe = Probe::of(sut);
        let (denied, quiet, plans) = (key("denied"), key("quiet"), [plan]);
        for user in [&denied, &quiet] {
            probe.spend(user, &plans, 4).await;
        }
        let before = probe.peek(&denied, &plans, 7).await;
        for _ in 0..20 {
            assert_eq!(
                probe.acquire(&denied, &plans, 7).await,
                before,
                "{}",
                plans[0]
            );
        }
        for later_ms in [0, 1, 1_000, 5_999, 20_000, 32_999, 1, 60_000] {
            probe.advance(Duration::from_millis(later_ms));
            let (said, expected) = (
                probe.peek(&denied, &plans, 7).await,
                probe.peek(&quiet, &plans, 7).await,
            );
            assert_eq!(said, expected, "{}", plans[0]);
        }
    }
}

/// Requests that are denied for a minute neither delay nor hasten the moment at which one is admitted.
pub async fn denied_requests_do_not_postpone_the_next_admission(sut: &impl StoreUnderTest) {
    for plan in each_unobserving(2) {
        let probe = Probe::of(sut);
        let (user, plans) = (key("user"), [plan]);
        probe.spend(&user, &plans, 2).await;
        let mut wait = probe.peek(&user, &plans, 1).await.retry_after;
        assert!(wait > Duration::from_secs(1), "{}", plans[0]);
        while wait > Duration::from_secs(1) {
            probe.advance(Duration::from_secs(1));
            wait -= Duration::from_secs(1);
            let denied = probe.acquire(&user, &plans, 1).await;
            assert_eq!(
                (denied.admitted, denied.retry_after),
                (false, wait),
                "{}",
                plans[0]
            );
        }
        probe.advance(wait);
        assert!(
            probe.acquire(&user, &plans, 1).await.admitted,
            "{}",
            plans[0]
        );
    }
}

/// A peek changes nothing, not even for a suppressing window, and starts nothing for a fresh key.
pub async fn peek_changes_nothing(sut: &impl StoreUnderTest) {
    let probe = Probe::of(sut);
    let plans = each_algorithm(5);
    let (fresh, used) = (key("fresh"), key("used"));
    probe.spend(&used, &plans, 3).await;
    for (user, free) in [(fresh, 5), (used, 2)] {
        let first = probe.peek(&user, &plans, 1).await;
        for units in [5, 1, 3] {
            let _ = probe.peek(&user, &plans, units).await;
        }
        assert_eq!(probe.peek(&user, &plans, 1).await, first);
        assert!(first.plans.iter().all(|plan| plan.remaining == free));
        assert_eq!(probe.drain(&user, &plans, 9).await, free);
    }
}

/// What a peek says is what the next call of the same cost answers.
pub async fn peek_foretells_the_next_call(sut: &impl StoreUnderTest) {
    for plan in each_algorithm(5) {
        let probe = Probe::of(sut);
        let (user, plans) = (key("user"), [plan]);
        for units in [2, 2, 2, 1, 1] {
            let told = probe.peek(&user, &plans, units).await;
            let came = probe.acquire(&user, &plans, units).await;
            assert_eq!(told.admitted, came.admitted, "{}", plans[0]);
            let spent = if came.admitted { units } else { 0 };
            if plans[0].name().as_str() != "suppressing" {
                assert_eq!(only(&told).remaining, only(&came).remaining + spent);
                assert_eq!(told.retry_after, came.retry_after);
            }
        }
    }
}

/// A cost that a plan can never admit is refused, whatever the other plans of the chain say, and charges none of them.
pub async fn cost_that_is_too_large_is_refused_and_charges_nothing(sut: &impl StoreUnderTest) {
    for small in each_algorithm(5) {
        let (probe, user) = (Probe::of(sut), key("user"));
        let chain = [plan("large", "100/min"), small];
        let too_large = InvalidRequest::CostTooLarge {
            plan: chain[1].name().clone(),
            cost: cost(6),
            max: 5,
        };
        let store = &probe.store;
        assert_eq!(
            refusal(store.try_acquire(&user, &chain, cost(6)).await),
            too_large
        );
        assert_eq!(refusal(store.peek(&user, &chain, cost(6)).await), too_large);
        assert!(refused(
            store.try_acquire(&user, &chain[1..], cost(u32::MAX)).await
        ));
        assert_eq!(probe.free(&user, &chain[0]).await, 100);
        assert_eq!(probe.free(&user, &chain[1]).await, 5);
        probe.spend(&user, &chain[1..], 5).await;
    }
}

/// A call without plans is refused.
pub async fn call_without_plans_is_refused(sut: &impl StoreUnderTest) {
    let (store, user) = (sut.store(), key("user"));
    let refusals = [
        refusal(store.try_acquire(&user, &[], cost(1)).await),
        refusal(store.peek(&user, &[], cost(1)).await),
        refusal(store.refund(&user, &[], &refund_under(0)).await),
        refusal(store.reset(&user, &[]).await),
    ];
    assert!(
        refusals
            .iter()
            .all(|reason| *reason == InvalidRequest::NoPlans)
    );
}

/// A call that names a plan twice, be it in other letters or with another limit, is refused and changes nothing.
pub async fn plan_named_twice_is_refused_and_changes_nothing(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let gold = plan("gold", "10/min");
    let chain = [
        gold.clone(),
        plan("silver", "5/min"),
        plan("GOLD", "fixed 7/min"),
    ];
    probe.spend(&user, &chain[..2], 2).await;
    let twice = InvalidRequest::DuplicatePlan {
        plan: gold.name().clone(),
    };
    let store = &probe.store;
    assert_eq!(
        refusal(store.try_acquire(&user, &chain, cost(1)).await),
        twice
    );
    assert_eq!(refusal(store.peek(&user, &chain, cost(1)).await), twice);
    assert_eq!(
        refusal(store.refund(&user, &chain, &refund_under(3)).await),
        twice
    );
    assert_eq!(refusal(store.reset(&user, &chain).await), twice);
    assert_eq!(probe.free(&user, &chain[0]).await, 8);
    assert_eq!(probe.free(&user, &chain[1]).await, 3);
}

/// The longest chain there may be is decided; one plan more is refused and changes nothing.
pub async fn chain_that_is_too_long_is_refused_and_changes_nothing(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let nth_plan = |nth| plan(&format!("plan-{nth}"), "3/min");
    let chain: Vec<Plan> = (0..=MAX_CHAIN).map(nth_plan).collect();
    let verdict = probe.acquire(&user, &chain[..MAX_CHAIN], 1).await;
    assert!(verdict.admitted && verdict.plans.len() == MAX_CHAIN);
    let too_many = InvalidRequest::TooManyPlans {
        plans: MAX_CHAIN + 1,
    };
    let store = &probe.store;
    assert_eq!(
        refusal(store.try_acquire(&user, &chain, cost(1)).await),
        too_many
    );
    assert_eq!(refusal(store.peek(&user, &chain, cost(1)).await), too_many);
    assert_eq!(
        refusal(
            store
                .refund(&user, &chain, &refund_under(chain.len()))
                .await
        ),
        too_many
    );
    assert_eq!(refusal(store.reset(&user, &chain).await), too_many);
    for plan in &chain[..MAX_CHAIN] {
        assert_eq!(probe.free(&user, plan).await, 2);
    }
    assert_eq!(probe.free(&user, &chain[MAX_CHAIN]).await, 3);
}

/// A refund of one unit under so many plans, charged at the epoch.
fn refund_under(plans: usize) -> Refund {
    Refund {
        source: Source::Store,
        charged_at: std::iter::repeat_n(Some(Timestamp::EPOCH), plans).collect(),
        charged: cost(1),
        given_back: 0,
        units: cost(1),
    }
}

fn refused<T>(answer: Result<T, limiter_core::StoreError>) -> bool {
    matches!(answer, Err(limiter_core::StoreError::Request(_)))
}
