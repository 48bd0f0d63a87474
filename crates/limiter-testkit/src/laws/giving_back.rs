//! Refund gives back at most what is spent; reset forgets.

use std::time::Duration;

use super::probe::{Probe, each_algorithm, key, only, plan};
use crate::StoreUnderTest;

/// A refund gives back what it says, but never more than is spent, and says how the plan then stands.
pub async fn refund_gives_back_at_most_what_was_spent(sut: &impl StoreUnderTest) {
    for plan in each_algorithm(10) {
        let (probe, user) = (Probe::of(sut), key("user"));
        let plans = [plan];
        assert_eq!(only(&probe.refund(&user, &plans, 3).await).remaining, 10);
        probe.spend(&user, &plans, 7).await;
        let refunded = probe.refund(&user, &plans, 3).await;
        assert_eq!(only(&refunded).remaining, 6, "{}", plans[0]);
        assert!(
            refunded.admitted,
            "how it stands for a request of the same cost"
        );
        assert_eq!(only(&probe.refund(&user, &plans, 9).await).remaining, 10);
        assert_eq!(probe.drain(&user, &plans, 20).await, 10, "{}", plans[0]);
    }
}

/// Of a window, the units that leave first are given back: what is left leaves no sooner than what was truly spent.
pub async fn refund_gives_back_the_units_that_leave_first(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let plans = [plan("sliding", "sliding 10/10s every 1s")];
    for units in [5, 4] {
        probe.spend(&user, &plans, units).await;
        probe.advance(Duration::from_secs(3));
    }
    let refunded = only(&probe.refund(&user, &plans, 6).await).to_owned();
    assert_eq!(
        (refunded.remaining, refunded.reset_after),
        (7, Duration::from_secs(7))
    );
    probe.advance(Duration::from_secs(4));
    assert_eq!(probe.free(&user, &plans[0]).await, 7);
    probe.advance(Duration::from_secs(3));
    assert_eq!(probe.free(&user, &plans[0]).await, 10);
}

/// A refund to a bucket gives tokens, not time: the fraction that had come in stays.
pub async fn refund_keeps_the_fraction_of_a_token(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let plans = [plan("bucket", "3/s burst 6")];
    probe.spend(&user, &plans, 6).await;
    probe.advance(Duration::from_millis(500));
    assert_eq!(only(&probe.refund(&user, &plans, 2).await).remaining, 3);
    let wait = probe.peek(&user, &plans, 4).await.retry_after;
    assert_eq!(wait, Duration::from_micros(166_667));
}

/// What has left or come in again by itself is not given back a second time.
pub async fn refund_of_what_has_returned_gives_nothing(sut: &impl StoreUnderTest) {
    for plan in each_algorithm(10) {
        let (probe, user) = (Probe::of(sut), key("user"));
        let plans = [plan];
        probe.spend(&user, &plans, 10).await;
        probe.advance(Duration::from_secs(60));
        let refunded = probe.refund(&user, &plans, 10).await;
        assert_eq!(only(&refunded).remaining, 10, "{}", plans[0]);
        assert_eq!(probe.drain(&user, &plans, 20).await, 10, "{}", plans[0]);
    }
}

/// Where nothing is spent any more a refund changes nothing, not even what a clock that steps back meets again.
pub async fn refund_where_nothing_is_spent_changes_nothing(sut: &impl StoreUnderTest) {
    for plan in each_algorithm(10) {
        let (probe, refunded, left_alone) = (Probe::of(sut), key("refunded"), key("left alone"));
        let plans = [plan];
        probe.spend(&refunded, &plans, 4).await;
        probe.spend(&left_alone, &plans, 4).await;
        probe.advance(only(&probe.peek(&refunded, &plans, 1).await).reset_after);
        let full = probe.refund(&refunded, &plans, 4).await;
        assert_eq!(
            full,
            probe.peek(&left_alone, &plans, 4).await,
            "{}",
            plans[0]
        );
        probe.clock.step_back(Duration::from_millis(500));
        let (said, expected) = (
            probe.peek(&refunded, &plans, 10).await,
            probe.peek(&left_alone, &plans, 10).await,
        );
        assert_eq!(said, expected, "{}", plans[0]);
        probe.advance(Duration::from_secs(2));
    }
}

/// A refund under a chain reaches every plan of it, shadow ones too, and no other.
pub async fn refund_reaches_every_named_plan(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let chain = [
        plan("a", "10/min"),
        plan("b", "fixed 10/min").in_shadow(),
        plan("c", "sliding 10/min"),
    ];
    probe.spend(&user, &chain, 6).await;
    let _ = probe.refund(&user, &chain[..2], 4).await;
    for (plan, free) in chain.iter().zip([8, 8, 4]) {
        assert_eq!(probe.free(&user, plan).await, free, "{plan}");
    }
}

/// A reset forgets the named plans of the named key, and nothing else.
pub async fn reset_forgets_only_what_is_named(sut: &impl StoreUnderTest) {
    let (probe, user, other) = (Probe::of(sut), key("user"), key("other"));
    let chain = each_algorithm(10);
    for who in [&user, &other] {
        probe.spend(who, &chain, 10).await;
    }
    probe.reset(&user, &chain[1..3]).await;
    for (plan, free) in chain.iter().zip([0, 10, 10, 0]) {
        assert_eq!(probe.free(&user, plan).await, free, "{plan}");
        assert_eq!(probe.free(&other, plan).await, 0, "{plan}");
    }
    probe.reset(&user, &chain).await;
    let (said, expected) = (
        probe.peek(&user, &chain, 1).await,
        probe.peek(&key("fresh"), &chain, 1).await,
    );
    assert_eq!(said, expected);
}

/// A reset forgets what a plan left under another algorithm, too.
pub async fn reset_forgets_what_another_algorithm_left(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    probe.spend(&user, &[plan("gold", "5/min")], 5).await;
    let changed = [plan("gold", "fixed 5/min")];
    probe.reset(&user, &changed).await;
    assert!(!only(&probe.peek(&user, &changed, 1).await).restarted);
    assert_eq!(probe.free(&user, &plan("gold", "5/min")).await, 5);
}
