//! A chain is all or nothing, in any order; shadow plans never deny.

use std::time::Duration;

use limiter_core::Plan;

use super::probe::{Probe, each_unobserving, key, plan};
use crate::StoreUnderTest;

/// A chain in which one plan denies charges none, whichever place that plan has.
pub async fn denied_chain_charges_no_plan(sut: &impl StoreUnderTest) {
    for nth in 0..3 {
        let (probe, user) = (Probe::of(sut), key(&format!("user-{nth}")));
        let mut chain = each_unobserving(10).to_vec();
        let tight = chain[nth].clone();
        probe.spend(&user, &[tight], 8).await;
        let before = probe.peek(&user, &chain, 1).await;
        let denied = probe.acquire(&user, &chain, 5).await;
        let admits: Vec<bool> = denied.plans.iter().map(|plan| plan.admits).collect();
        assert!(!denied.admitted);
        assert_eq!(admits.iter().position(|admits| !admits), Some(nth));
        assert_eq!(probe.peek(&user, &chain, 1).await, before);
        chain.remove(nth);
        probe.spend(&user, &chain, 10).await;
    }
}

/// An admitted chain charges every plan, and the plans stay apart: each can be asked alone.
pub async fn admitted_chain_charges_every_plan(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let chain = super::probe::each_algorithm(10);
    probe.spend(&user, &chain, 3).await;
    probe.spend(&user, &chain[..2], 2).await;
    for (plan, free) in chain.iter().zip([5, 5, 7, 7]) {
        assert_eq!(probe.free(&user, plan).await, free, "{plan}");
    }
}

/// The order in which plans are named changes nothing but the order of the answers.
pub async fn order_of_a_chain_does_not_matter(sut: &impl StoreUnderTest) {
    let probe = Probe::of(sut);
    let forward = [
        plan("a", "3/s burst 7"),
        plan("b", "sliding 9/5s"),
        plan("c", "fixed 8/10s"),
        plan("d", "suppressing 6/20s hard 30"),
        plan("e", "2/s").in_shadow(),
    ];
    let backward: Vec<Plan> = forward.iter().rev().cloned().collect();
    probe.random.set(u64::MAX / 2);
    for units in [2, 1, 2, 1, 1, 2, 1, 2] {
        let one = probe.acquire(&key("one"), &forward, units).await;
        let mut other = probe.acquire(&key("other"), &backward, units).await;
        other.plans.reverse();
        assert_eq!(one, other);
        probe.advance(Duration::from_millis(400));
    }
}

/// A shadow plan that is exceeded says so and denies nothing.
pub async fn shadow_plan_reports_and_never_denies(sut: &impl StoreUnderTest) {
    for trial in super::probe::each_algorithm(2) {
        let (probe, user) = (Probe::of(sut), key("user"));
        let chain = [plan("real", "10/min"), trial.in_shadow()];
        for nth in 1..=6 {
            let verdict = probe.acquire(&user, &chain, 1).await;
            assert!(verdict.admitted && verdict.retry_after.is_zero());
            assert_eq!(verdict.plans[1].admits, nth <= 2, "{}", chain[1]);
            assert_eq!(
                verdict.plans[1].retry_after.is_zero(),
                nth <= 2,
                "{}",
                chain[1]
            );
            assert_eq!(verdict.plans[0].remaining, 10 - nth);
        }
        probe.spend(&user, &chain[1..], 1).await;
        probe.reset(&user, &chain).await;
    }
}

/// A shadow plan is charged when the request is admitted and it has room, and is left alone when the request is denied.
pub async fn shadow_plan_is_charged_as_if_enforced(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let trial = plan("trial", "5/min");
    let chain = [plan("real", "fixed 7/min"), trial.clone().in_shadow()];
    probe.spend(&user, &chain, 4).await;
    assert_eq!(probe.free(&user, &trial).await, 1);
    probe.spend(&user, &chain, 2).await;
    assert_eq!(probe.free(&user, &trial).await, 1);
    assert!(!probe.acquire(&user, &chain, 2).await.admitted);
    probe.spend(&user, &chain, 1).await;
    assert_eq!(probe.free(&user, &trial).await, 0);
}
