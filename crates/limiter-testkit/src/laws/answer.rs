//! The answer carries everything; no second read is needed.

use std::time::Duration;

use limiter_core::math::Suppression;
use limiter_core::{Refund, Source};

use super::probe::{Probe, cost, key, only, plan};
use crate::StoreUnderTest;

/// Every call answers with one verdict for each plan, in the order in which they were named.
pub async fn answer_has_one_verdict_per_plan_in_order(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let mut chain = vec![
        plan("a", "10/s"),
        plan("b", "sliding 20/s"),
        plan("c", "fixed 30/s"),
        plan("d", "suppressing 40/s"),
        plan("e", "50/s"),
    ];
    for _ in 0..chain.len() {
        let acquired = probe.acquire(&user, &chain, 2).await;
        let refund = Refund::of(&acquired, cost(2));
        let answers = [
            acquired,
            probe.peek(&user, &chain, 1).await,
            probe
                .store
                .refund(&user, &chain, &refund)
                .await
                .expect("refund gives a verdict"),
        ];
        for (answer, spent) in answers.iter().zip([2, 2, 0]) {
            assert_eq!(answer.source, Source::Store);
            let free: Vec<u32> = answer.plans.iter().map(|plan| plan.remaining).collect();
            let expected: Vec<u32> = chain
                .iter()
                .map(|plan| plan.limit().units() - spent)
                .collect();
            assert_eq!(free, expected);
        }
        chain.rotate_left(1);
    }
}

/// The numbers of an admitted and of a denied call are exact: what is free, when all is, and what will be.
pub async fn numbers_of_an_answer_are_exact(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let second = Duration::from_secs(1);
    // After 4 units at 0 s and 3 at 2 s, a request of 5 at 3 s: (plan, free, reset, retry, free after the wait).
    let cases = [
        (
            plan("bucket", "1/s burst 10"),
            6,
            4 * second,
            Duration::ZERO,
            6,
        ),
        (
            plan("slow", "1/2s burst 8"),
            2,
            3 * 4 * second - second,
            5 * second,
            5,
        ),
        (
            plan("sliding", "sliding 8/10s"),
            1,
            9 * second,
            7 * second,
            5,
        ),
        (plan("fixed", "fixed 8/10s"), 1, 7 * second, 7 * second, 8),
    ];
    for (plan, ..) in &cases {
        let plans = std::slice::from_ref(plan);
        probe.spend(&user, plans, 4).await;
    }
    probe.advance(2 * second);
    for (plan, ..) in &cases {
        let plans = std::slice::from_ref(plan);
        probe.spend(&user, plans, 3).await;
    }
    probe.advance(second);
    for (plan, free, reset_after, retry_after, free_after_wait) in cases {
        let said = probe.peek(&user, std::slice::from_ref(&plan), 5).await;
        let one = only(&said);
        assert_eq!(
            (said.admitted, one.admits),
            (retry_after.is_zero(), said.admitted),
            "{plan}"
        );
        assert_eq!(said.retry_after, retry_after, "{plan}");
        assert_eq!(one.retry_after, retry_after, "{plan}");
        assert_eq!(one.remaining, free, "{plan}");
        assert_eq!(one.reset_after, reset_after, "{plan}");
        assert_eq!(one.free_after_wait, free_after_wait, "{plan}");
        assert_eq!(
            (one.suppression, one.restarted),
            (Suppression::NONE, false),
            "{plan}"
        );
    }
}
