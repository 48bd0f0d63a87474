//! Refund gives back what its charge still takes up; reset forgets.

use std::time::Duration;

use limiter_core::{Clock, InvalidRequest, Refund};

use super::probe::{MICROSECOND, Probe, cost, each_algorithm, key, only, plan, refusal};
use crate::StoreUnderTest;

/// Windows with sub-buckets, of 20 units in ten seconds.
const WINDOWS: [&str; 2] = ["sliding 20/10s", "suppressing 20/10s hard 20"];

/// A refund gives back units of its charge, never more than were charged, and says how the plan then stands.
pub async fn refund_gives_back_at_most_what_was_charged(sut: &impl StoreUnderTest) {
    for plan in each_algorithm(10) {
        let (probe, user) = (Probe::of(sut), key("user"));
        let plans = [plan];
        let mut spent = probe.spend(&user, &plans, 7).await;
        probe.spend(&user, &plans, 3).await;
        let refunded = probe.refund(&user, &plans, &mut spent, 3).await;
        assert_eq!(only(&refunded).remaining, 3, "{}", plans[0]);
        assert!(refunded.admitted, "how it stands for a request of one unit");
        let too_large = spent.clone().part(5);
        assert_eq!(
            refusal(probe.store.refund(&user, &plans, &too_large).await),
            InvalidRequest::RefundTooLarge {
                units: cost(5),
                left: 4,
            }
        );
        assert_eq!(
            only(&probe.refund(&user, &plans, &mut spent, 4).await).remaining,
            7
        );
        assert_eq!(probe.drain(&user, &plans, 20).await, 7, "{}", plans[0]);
    }
}

/// The answer to a charge tells its moment, and no other answer has one.
pub async fn only_a_charge_tells_its_moment(sut: &impl StoreUnderTest) {
    for plan in each_algorithm(10) {
        let (probe, user) = (Probe::of(sut), key("user"));
        let plans = [plan];
        probe.advance(Duration::from_secs(1));
        let charged = probe.acquire(&user, &plans, 8).await;
        assert_eq!(only(&charged).charged_at, Some(probe.clock.now()));
        let denied = probe.acquire(&user, &plans, 3).await;
        let peeked = probe.peek(&user, &plans, 1).await;
        let refunded = probe
            .store
            .refund(&user, &plans, &Refund::of(&charged, cost(8)))
            .await;
        for answer in [denied, peeked, refunded.expect("refund gives a verdict")] {
            assert_eq!(only(&answer).charged_at, None, "{}", plans[0]);
        }
    }
}

/// While the clock is behind, a charge is made at the latest moment that the plan has seen.
pub async fn charge_while_the_clock_is_behind_counts_from_the_latest_time(
    sut: &impl StoreUnderTest,
) {
    for plan in each_algorithm(10) {
        let (probe, user) = (Probe::of(sut), key("user"));
        let plans = [plan];
        let first = probe.acquire(&user, &plans, 3).await;
        probe.clock.step_back(Duration::from_millis(900));
        let second = probe.acquire(&user, &plans, 3).await;
        assert!(only(&first).charged_at.is_some());
        assert_eq!(
            only(&second).charged_at,
            only(&first).charged_at,
            "{}",
            plans[0]
        );
        probe.advance(Duration::from_secs(2));
    }
}

/// Of a window, units are taken out of the sub-bucket that they are in: the others leave as they would have.
pub async fn refund_takes_units_out_of_their_sub_bucket(sut: &impl StoreUnderTest) {
    let half_a_second = Duration::from_millis(500);
    for window in WINDOWS {
        for (nth, units, free_then) in [(0, 3, 18), (1, 5, 18), (2, 2, 20)] {
            let (probe, user) = (Probe::of(sut), key(&format!("user {nth}")));
            let plans = [plan("window", &format!("{window} every 1s"))];
            // The first two share a sub-bucket, which leaves after 10.5 s, and the third after 13.5 s.
            let mut spent = Vec::new();
            for (units, wait) in [
                (3, half_a_second),
                (5, 6 * half_a_second),
                (2, half_a_second),
            ] {
                spent.push(probe.spend(&user, &plans, units).await);
                probe.advance(wait);
            }
            let refunded = probe.refund(&user, &plans, &mut spent[nth], units).await;
            assert_eq!(only(&refunded).remaining, 10 + units, "{}", plans[0]);
            probe.advance(13 * half_a_second);
            assert_eq!(
                probe.free(&user, &plans[0]).await,
                free_then,
                "{}",
                plans[0]
            );
            probe.advance(6 * half_a_second);
            assert_eq!(probe.free(&user, &plans[0]).await, 20, "{}", plans[0]);
        }
    }
}

/// Units that come after a sub-bucket was given back whole keep no older ones from leaving.
pub async fn units_after_a_refund_hold_no_older_ones_back(sut: &impl StoreUnderTest) {
    for window in WINDOWS {
        let (probe, user) = (Probe::of(sut), key("user"));
        let plans = [plan("window", &format!("{window} every 1s"))];
        probe.spend(&user, &plans, 8).await;
        probe.advance(Duration::from_secs(3));
        let mut spent = probe.spend(&user, &plans, 2).await;
        probe.advance(Duration::from_millis(100));
        let _ = probe.refund(&user, &plans, &mut spent, 2).await;
        probe.spend(&user, &plans, 4).await;
        probe.advance(Duration::from_millis(6_900));
        assert_eq!(probe.free(&user, &plans[0]).await, 16, "{}", plans[0]);
    }
}

/// A refund to a window comes too late once a whole window has passed since the charge, to the microsecond.
pub async fn refund_after_a_whole_window_gives_nothing(sut: &impl StoreUnderTest) {
    let minute = Duration::from_secs(60);
    for plan in each_algorithm(10).into_iter().skip(1) {
        for (wait, given) in [(minute - MICROSECOND, 4), (minute, 0)] {
            let (probe, user) = (Probe::of(sut), key(&format!("user {given}")));
            let plans = [plan.clone()];
            let mut spent = probe.spend(&user, &plans, 4).await;
            probe.advance(MICROSECOND);
            // Of a window with sub-buckets, in the same one: it holds the first units back for a microsecond.
            probe.spend(&user, &plans, 1).await;
            probe.advance(wait - MICROSECOND);
            let before = only(&probe.peek(&user, &plans, 1).await).remaining;
            let after = only(&probe.refund(&user, &plans, &mut spent, 4).await).remaining;
            assert_eq!(after, before + given, "{}", plans[0]);
        }
    }
}

/// A bucket gets back what was charged, less what was refilled since, to the fraction of a token.
pub async fn refund_gives_nothing_that_was_refilled(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let plans = [plan("bucket", "3/s burst 6")];
    let mut spent = probe.spend(&user, &plans, 3).await;
    probe.spend(&user, &plans, 3).await;
    probe.advance(Duration::from_millis(500));
    probe.spend(&user, &plans, 1).await;
    // 5.5 tokens are lacking, and 1.5 of the first 3 were refilled.
    assert_eq!(
        only(&probe.refund(&user, &plans, &mut spent, 3).await).remaining,
        2
    );
    probe.spend(&user, &plans, 2).await;
    assert_eq!(probe.free(&user, &plans[0]).await, 0);
}

/// A refund to a bucket gives tokens, not time: the fraction that had come in stays.
pub async fn refund_keeps_the_fraction_of_a_token(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let plans = [plan("bucket", "3/s burst 6")];
    let mut spent = probe.spend(&user, &plans, 6).await;
    probe.advance(Duration::from_millis(500));
    assert_eq!(
        only(&probe.refund(&user, &plans, &mut spent, 2).await).remaining,
        3
    );
    let wait = probe.peek(&user, &plans, 4).await.retry_after;
    assert_eq!(wait, Duration::from_micros(166_667));
}

/// Partial refunds add up: each is less by what the earlier ones gave back, also where a bucket has refilled meanwhile.
pub async fn partial_refunds_add_up(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let plans = [plan("bucket", "1/s burst 3")];
    let mut spent = probe.spend(&user, &plans, 3).await;
    probe.advance(Duration::from_secs(2));
    probe.spend(&user, &plans, 2).await;
    for _ in 0..3 {
        // One token of the charge is left. Without the earlier refunds in the sum, two more come of it.
        assert_eq!(
            only(&probe.refund(&user, &plans, &mut spent, 1).await).remaining,
            1
        );
    }
    assert_eq!(probe.drain(&user, &plans, 5).await, 1);
}

/// What has left or come in again by itself is not given back a second time, whoever has used it since.
pub async fn refund_of_what_has_returned_gives_nothing(sut: &impl StoreUnderTest) {
    for plan in each_algorithm(10) {
        let (probe, user) = (Probe::of(sut), key("user"));
        let plans = [plan];
        let mut spent = probe.spend(&user, &plans, 10).await;
        probe.advance(Duration::from_secs(60));
        assert_eq!(
            only(&probe.refund(&user, &plans, &mut spent, 1).await).remaining,
            10
        );
        probe.spend(&user, &plans, 10).await;
        assert_eq!(
            only(&probe.refund(&user, &plans, &mut spent, 9).await).remaining,
            0
        );
        assert_eq!(probe.drain(&user, &plans, 20).await, 0, "{}", plans[0]);
    }
}

/// Where nothing is spent any more a refund changes nothing, not even what a clock that steps back meets again.
pub async fn refund_where_nothing_is_spent_changes_nothing(sut: &impl StoreUnderTest) {
    for plan in each_algorithm(10) {
        let (probe, refunded, left_alone) = (Probe::of(sut), key("refunded"), key("left alone"));
        let plans = [plan];
        let mut spent = probe.spend(&refunded, &plans, 4).await;
        probe.spend(&left_alone, &plans, 4).await;
        probe.advance(only(&probe.peek(&refunded, &plans, 1).await).reset_after);
        let full = probe.refund(&refunded, &plans, &mut spent, 4).await;
        assert_eq!(
            full,
            probe.peek(&left_alone, &plans, 1).await,
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

/// A refund under a chain reaches every plan that was charged, shadow ones too.
pub async fn refund_reaches_every_charged_plan(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let chain = [
        plan("a", "10/min"),
        plan("b", "fixed 10/min").in_shadow(),
        plan("c", "sliding 10/min"),
    ];
    let mut spent = probe.spend(&user, &chain, 6).await;
    let _ = probe.refund(&user, &chain, &mut spent, 4).await;
    for plan in &chain {
        assert_eq!(probe.free(&user, plan).await, 8, "{plan}");
    }
}

/// A shadow plan that did not admit the request was not charged, and gets nothing back.
pub async fn plan_that_was_not_charged_gets_nothing_back(sut: &impl StoreUnderTest) {
    for trial in each_algorithm(3) {
        let (probe, user) = (Probe::of(sut), key("user"));
        let chain = [plan("real", "fixed 10/min"), trial.in_shadow()];
        probe.spend(&user, &chain, 3).await;
        let mut spent = probe.spend(&user, &chain, 2).await;
        let _ = probe.refund(&user, &chain, &mut spent, 2).await;
        assert_eq!(probe.free(&user, &chain[0]).await, 7);
        assert_eq!(probe.free(&user, &chain[1]).await, 0, "{}", chain[1]);
        probe.reset(&user, &chain).await;
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
