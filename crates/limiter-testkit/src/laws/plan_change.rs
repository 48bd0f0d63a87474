//! A changed plan keeps what was spent; a changed algorithm starts afresh and says so.

use std::time::Duration;

use super::probe::{Probe, each_algorithm, key, only, plan};
use crate::StoreUnderTest;

/// A limit that shrinks or grows counts what was spent against the new number.
pub async fn changed_limit_keeps_what_was_spent(sut: &impl StoreUnderTest) {
    let limits = |units: u32| each_algorithm(units).into_iter();
    let sizes = limits(10).zip(limits(8).zip(limits(4).zip(limits(15))));
    for (ten, (eight, (four, fifteen))) in sizes {
        let (probe, user) = (Probe::of(sut), key("user"));
        probe.spend(&user, &[ten], 6).await;
        assert_eq!(probe.free(&user, &eight).await, 2, "{eight}");
        assert_eq!(probe.free(&user, &four).await, 0, "{four}");
        let denied = probe.peek(&user, &[four], 4).await;
        assert!(!denied.admitted && !only(&denied).restarted);
        assert_eq!(probe.free(&user, &fifteen).await, 9, "{fifteen}");
        assert!(
            probe
                .acquire(&user, std::slice::from_ref(&fifteen), 9)
                .await
                .admitted
        );
        assert!(!probe.acquire(&user, &[fifteen], 1).await.admitted);
    }
}

/// A plan that changes to and fro grants nothing by that.
pub async fn plan_change_never_grants(sut: &impl StoreUnderTest) {
    let changes = [
        ["10/min", "10/s", "10/24h", "10/min burst 10"],
        [
            "sliding 10/min",
            "sliding 10/1ms",
            "sliding 10/24h",
            "sliding 10/min every 1s",
        ],
        [
            "suppressing 10/min hard 10",
            "suppressing 10/s hard 10",
            "suppressing 10/24h",
            "suppressing 10/2h",
        ],
        ["fixed 10/min", "fixed 10/1ms", "fixed 10/24h", "fixed 10/h"],
    ];
    for limits in changes {
        let (probe, user) = (Probe::of(sut), key(limits[0]));
        assert!(
            probe
                .acquire(&user, &[plan("changing", limits[0])], 10)
                .await
                .admitted
        );
        for limit in limits.iter().cycle().take(12) {
            let said = probe.peek(&user, &[plan("changing", limit)], 1).await;
            assert_eq!(
                (said.admitted, only(&said).remaining),
                (false, 0),
                "{limit}"
            );
            assert!(!said.retry_after.is_zero(), "{limit}");
        }
    }
}

/// What a bucket lacked at its last charge refills from then on at the rate that the plan has now.
pub async fn changed_rate_counts_from_the_last_charge(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let slow = [plan("gold", "1/min burst 10")];
    let fast = [plan("gold", "1/s burst 10")];
    probe.spend(&user, &slow, 10).await;
    probe.advance(Duration::from_secs(3));
    assert_eq!(probe.free(&user, &slow[0]).await, 0);
    assert_eq!(probe.free(&user, &fast[0]).await, 3);
    assert_eq!(
        probe.peek(&user, &fast, 5).await.retry_after,
        Duration::from_secs(2)
    );
    assert_eq!(only(&probe.acquire(&user, &fast, 1).await).remaining, 2);
    let denied = probe.acquire(&user, &fast, 3).await;
    assert_eq!(denied.retry_after, Duration::from_secs(1));
    assert_eq!(only(&denied).reset_after, Duration::from_secs(8));
    assert_eq!(probe.free(&user, &slow[0]).await, 2);
}

/// A bucket that lacked more than it holds now was empty then. All that it lacked is remembered, for the sake of another
/// release that may still have the larger plan.
pub async fn changed_burst_keeps_the_whole_debt(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let large = [plan("gold", "1/s burst 100")];
    let small = [plan("gold", "1/s burst 10")];
    probe.spend(&user, &large, 100).await;
    probe.advance(Duration::from_secs(4));
    let spent = probe.acquire(&user, &small, 3).await;
    assert_eq!((spent.admitted, only(&spent).remaining), (true, 0));
    assert_eq!(only(&spent).reset_after, Duration::from_secs(10));
    assert_eq!(probe.free(&user, &large[0]).await, 1);
    probe.advance(Duration::from_secs(10));
    assert_eq!(probe.free(&user, &small[0]).await, 10);
    assert_eq!(probe.free(&user, &large[0]).await, 11);
}

/// What has run out under the plan that left it is no more, whether the store has freed it or not.
pub async fn outlived_state_of_a_changed_plan_is_no_state(sut: &impl StoreUnderTest) {
    for algorithm in ["bucket", "sliding", "suppressing", "fixed"] {
        for forgets in [false, true] {
            let (probe, user) = (Probe::of(sut), key(&format!("{algorithm} {forgets}")));
            let short = [plan("gold", &format!("{algorithm} 10/s"))];
            let long = [plan("gold", &format!("{algorithm} 10/24h"))];
            probe.spend(&user, &short, 10).await;
            let second = Duration::from_secs(1);
            assert_eq!(probe.peek(&user, &long, 1).await.retry_after, second);
            probe.advance(second - Duration::from_micros(1));
            assert_eq!(probe.free(&user, &long[0]).await, 0, "{algorithm}");
            probe.advance(Duration::from_micros(1));
            if forgets {
                probe.advance(Duration::from_secs(60));
                sut.forget_idle().await;
            }
            assert_eq!(probe.free(&user, &long[0]).await, 10, "{algorithm}");
            assert!(probe.acquire(&user, &long, 10).await.admitted);
        }
    }
}

/// The same rate in other numbers, such as `10/s` and `20/2s`, is no change: not a fraction of a token is lost.
pub async fn same_rate_in_other_numbers_is_no_change(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let stated = [plan("gold", "3/s burst 9"), plan("gold", "6/2s burst 9")];
    probe.spend(&user, &stated[..1], 9).await;
    probe.advance(Duration::from_millis(500));
    probe.spend(&user, &stated[1..], 1).await;
    let denied = probe.peek(&user, &stated[..1], 1).await;
    assert_eq!(denied.retry_after, Duration::from_micros(166_667));
}

/// Units leave a window after they came, as long as that window is now.
pub async fn changed_window_counts_from_when_units_came(sut: &impl StoreUnderTest) {
    for algorithm in ["sliding", "fixed"] {
        let (probe, user) = (Probe::of(sut), key("user"));
        let long = [plan(algorithm, &format!("{algorithm} 10/h"))];
        let short = [plan(algorithm, &format!("{algorithm} 10/min"))];
        probe.spend(&user, &long, 4).await;
        let hour = Duration::from_secs(3600);
        let told = only(&probe.peek(&user, &short, 1).await).reset_after;
        assert_eq!(told, hour / 60);
        let spent = probe.acquire(&user, &short, 1).await;
        assert_eq!(only(&spent).remaining, 5);
        assert_eq!(only(&spent).reset_after, hour / 60, "{algorithm}");
        let back = probe.acquire(&user, &long, 1).await;
        assert_eq!(only(&back).remaining, 4);
        assert_eq!(only(&back).reset_after, hour, "{algorithm}");
        probe.advance(hour / 60);
        assert_eq!(probe.free(&user, &short[0]).await, 10, "{algorithm}");
        assert_eq!(probe.free(&user, &long[0]).await, 4, "{algorithm}");
    }
}

/// What one release admits under a short window counts in the long window of another one beside it, where it stays longer by
/// less than a thirtieth.
pub async fn changed_window_forgets_nothing_of_a_longer_one(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let long = [plan("gold", "sliding 100/100s")];
    let short = [plan("gold", "sliding 1/s")];
    probe.spend(&user, &long, 90).await;
    for _ in 0..10 {
        probe.advance(Duration::from_secs(1));
        assert!(probe.acquire(&user, &short, 1).await.admitted);
    }
    assert_eq!(probe.free(&user, &long[0]).await, 0);
    probe.advance(Duration::from_secs(89));
    assert_eq!(probe.free(&user, &long[0]).await, 0);
    probe.advance(Duration::from_secs(5));
    assert!(probe.free(&user, &long[0]).await >= 90);
}

/// A fixed window goes on while shorter ones of another release beside it begin and end: what they
/// admit counts in it, and what is given back leaves both.
pub async fn changed_fixed_window_forgets_nothing_of_a_longer_one(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let long = [plan("gold", "fixed 100/h")];
    let short = [plan("gold", "fixed 10/min")];
    let minute = Duration::from_secs(60);
    probe.spend(&user, &long, 60).await;
    for spent in 1..=3 {
        probe.advance(minute);
        let mut charge = probe.spend(&user, &short, 10).await;
        assert!(!probe.acquire(&user, &short, 1).await.admitted);
        assert_eq!(probe.free(&user, &long[0]).await, 40 - 10 * spent);
        let refunded = probe.refund(&user, &short, &mut charge, 4).await;
        assert_eq!(only(&refunded).remaining, 4);
        assert_eq!(probe.free(&user, &long[0]).await, 44 - 10 * spent);
        probe.spend(&user, &short, 4).await;
    }
    probe.spend(&user, &long, 10).await;
    let denied = probe.peek(&user, &long, 1).await;
    assert!(!denied.admitted);
    assert_eq!(denied.retry_after, 57 * minute);
    assert_eq!(
        probe.peek(&user, &short, 1).await.retry_after,
        Duration::from_secs(60)
    );
    probe.advance(57 * minute);
    assert_eq!(probe.free(&user, &long[0]).await, 100);
}

/// A plan of another algorithm starts afresh, and says so until it is next spent from.
pub async fn changed_algorithm_restarts_and_says_so(sut: &impl StoreUnderTest) {
    let all = each_algorithm(5).map(|plan| plan.limit().to_string());
    for (from, before) in all.iter().enumerate() {
        for (to, after) in all.iter().enumerate().filter(|(to, _)| *to != from) {
            let (probe, user) = (Probe::of(sut), key(&format!("{from} to {to}")));
            let (before, after) = ([plan("gold", before)], [plan("gold", after)]);
            let mut spent = probe.spend(&user, &before, 4).await;
            let told = probe.peek(&user, &after, 1).await;
            assert!(only(&told).restarted && only(&told).remaining == 5);
            assert!(only(&told).reset_after.is_zero());
            assert_eq!(
                probe.free(&user, &before[0]).await,
                1,
                "a peek changed the state"
            );
            let refunded = probe.refund(&user, &after, &mut spent, 4).await;
            assert!(
                only(&refunded).restarted,
                "a refund of nothing changed the state"
            );
            let first = probe.acquire(&user, &after, 2).await;
            assert!(first.admitted && only(&first).restarted);
            assert_eq!(only(&first).remaining, 3);
            let second = probe.acquire(&user, &after, 2).await;
            assert!(second.admitted && !only(&second).restarted);
        }
    }
}

/// What another algorithm left is no more once it would have ended: the plan is simply unused.
pub async fn outlived_state_of_another_algorithm_is_no_restart(sut: &impl StoreUnderTest) {
    let (before, after) = ([plan("gold", "5/s")], [plan("gold", "fixed 5/s")]);
    for forgets in [false, true] {
        let (probe, user) = (Probe::of(sut), key(&format!("user {forgets}")));
        probe.spend(&user, &before, 5).await;
        probe.advance(Duration::from_secs(1));
        if forgets {
            probe.advance(Duration::from_secs(60));
            sut.forget_idle().await;
        }
        let said = probe.acquire(&user, &after, 1).await;
        assert!(said.admitted && !only(&said).restarted);
    }
}
