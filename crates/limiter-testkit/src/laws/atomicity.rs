//! One call is one atomic step.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use limiter_core::{Key, Plan, RateLimiterRepository};

use super::probe::{Probe, cost, each_algorithm, key, plan};
use crate::StoreUnderTest;

/// Many callers at one instant get exactly the limit between them, under every algorithm.
pub async fn racing_callers_never_overspend(sut: &impl StoreUnderTest) {
    for plan in each_algorithm(50) {
        let admitted = race(
            &sut.store(),
            &[key("shared")],
            &[vec![plan.clone()]],
            200,
            1,
        )
        .await;
        assert_eq!(admitted, 50, "{plan}");
    }
}

/// Many callers of a chain get exactly what its tightest plan allows, and nothing is charged for the others.
pub async fn racing_chains_never_overspend(sut: &impl StoreUnderTest) {
    let chain = vec![
        plan("wide", "100/min"),
        plan("tight", "sliding 30/min"),
        plan("middle", "fixed 60/min"),
    ];
    let admitted = race(
        &sut.store(),
        &[key("shared")],
        std::slice::from_ref(&chain),
        150,
        2,
    )
    .await;
    assert_eq!(admitted, 15);
    let left = Probe::of(sut).peek(&key("shared"), &chain, 1).await;
    let left: Vec<u32> = left.plans.iter().map(|plan| plan.remaining).collect();
    assert_eq!(left, [70, 0, 30]);
}

/// Chains that name the same plans in opposite orders neither block each other nor overspend.
pub async fn racing_chains_in_opposite_orders_never_overspend(sut: &impl StoreUnderTest) {
    let (a, b) = (plan("a", "20/min"), plan("b", "fixed 30/min"));
    let chains = [vec![a.clone(), b.clone()], vec![b, a]];
    let keys = [key("first"), key("second")];
    assert_eq!(race(&sut.store(), &keys, &chains, 200, 1).await, 40);
}

/// Callers that race for keys never seen before share one state each.
pub async fn racing_callers_of_fresh_keys_never_overspend(sut: &impl StoreUnderTest) {
    let keys: Vec<Key> = (0..40).map(|nth| key(&format!("fresh-{nth}"))).collect();
    let chain = vec![plan("bucket", "3/min"), plan("window", "sliding 2/min")];
    assert_eq!(race(&sut.store(), &keys, &[chain], 400, 1).await, 80);
}

/// Refunds that race with each other give back at most what was spent.
pub async fn racing_refunds_never_give_back_more_than_was_spent(sut: &impl StoreUnderTest) {
    for plan in each_algorithm(20) {
        let probe = Probe::of(sut);
        let (user, plans) = (key("user"), [plan]);
        probe.spend(&user, &plans, 4).await;
        let mut spent = probe.spend(&user, &plans, 10).await;
        let refunds: Vec<_> = (0..10)
            .map(|_| {
                let (store, user, plans) = (sut.store(), user.clone(), plans.clone());
                let refund = spent.part(1);
                tokio::spawn(async move { store.refund(&user, &plans, &refund).await })
            })
            .collect();
        for refund in refunds {
            let verdict = refund.await.expect("no task panics");
            assert!(verdict.expect("refund gives a verdict").plans[0].remaining <= 16);
        }
        assert_eq!(probe.drain(&user, &plans, 40).await, 16, "{}", plans[0]);
    }
}

/// A call that is dropped half-way takes effect once or not at all, and leaves a state that still works.
pub async fn a_dropped_call_takes_effect_at_most_once(sut: &impl StoreUnderTest) {
    let probe = Probe::of(sut);
    let (user, plans) = (key("user"), [plan("bucket", "50/min")]);
    for _ in 0..20 {
        let mut call = probe.store.try_acquire(&user, &plans, cost(1));
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(answer) = call.as_mut().poll(&mut context) {
            assert!(answer.expect("try_acquire gives a verdict").admitted);
        }
    }
    let rest = probe.drain(&user, &plans, 60).await;
    assert!(
        (30..=50).contains(&rest),
        "{rest} of 50 were left by 20 calls"
    );
}

/// Lets `callers` race, each for one of `keys` under one of `chains` in turn; returns how many were admitted.
async fn race(
    store: &Arc<dyn RateLimiterRepository>,
    keys: &[Key],
    chains: &[Vec<Plan>],
    callers: usize,
    units: u32,
) -> usize {
    let mut tasks = Vec::new();
    for nth in 0..callers {
        let store = Arc::clone(store);
        let key = keys[nth % keys.len()].clone();
        let chain = chains[nth / keys.len() % chains.len()].clone();
        tasks.push(tokio::spawn(async move {
            store.try_acquire(&key, &chain, cost(units)).await
        }));
    }
    let mut admitted = 0;
    for task in tasks {
        let verdict = task.await.expect("no caller panics");
        admitted += usize::from(verdict.expect("try_acquire gives a verdict").admitted);
    }
    admitted
}
