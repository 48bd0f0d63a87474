//! A clock that steps back counts as standing still.

use std::time::Duration;

use limiter_core::Clock;

use super::probe::{Probe, each_algorithm, each_unobserving, key, only, plan};
use crate::StoreUnderTest;

const BACK: Duration = Duration::from_millis(900);

/// A clock that steps back, and then again and again, grants nothing.
pub async fn clock_step_back_grants_nothing(sut: &impl StoreUnderTest) {
    for plan in each_algorithm(6) {
        let probe = Probe::of(sut);
        let (user, plans) = (key("user"), [plan]);
        probe.advance(Duration::from_secs(100));
        probe.spend(&user, &plans, 6).await;
        for _ in 0..10 {
            probe.clock.step_back(BACK);
            let behind = probe.peek(&user, &plans, 1).await;
            assert_eq!(
                (behind.admitted, only(&behind).remaining),
                (false, 0),
                "{}",
                plans[0]
            );
            probe.advance(BACK);
            let again = probe.peek(&user, &plans, 1).await;
            assert_eq!(
                (again.admitted, only(&again).remaining),
                (false, 0),
                "{}",
                plans[0]
            );
        }
    }
}

/// What is free when the clock steps back stays free, to the last unit.
pub async fn clock_step_back_denies_nothing(sut: &impl StoreUnderTest) {
    for plan in each_algorithm(6) {
        let probe = Probe::of(sut);
        let (user, plans) = (key("user"), [plan]);
        probe.spend(&user, &plans, 2).await;
        probe.clock.step_back(BACK);
        assert_eq!(probe.drain(&user, &plans, 10).await, 4, "{}", plans[0]);
    }
}

/// What is spent while the clock is behind counts from the latest time that was seen.
pub async fn spending_while_the_clock_is_behind_counts_from_the_latest_time(
    sut: &impl StoreUnderTest,
) {
    for plan in each_unobserving(6) {
        let probe = Probe::of(sut);
        let (stepped, steady, plans) = (key("stepped"), key("steady"), [plan]);
        for user in [&stepped, &steady] {
            probe.spend(user, &plans, 2).await;
        }
        probe.spend(&steady, &plans, 3).await;
        probe.clock.step_back(BACK);
        probe.spend(&stepped, &plans, 3).await;
        for later_s in [0, 1, 10, 48, 2] {
            probe.advance(Duration::from_secs(later_s));
            let (said, expected) = (
                probe.peek(&stepped, &plans, 2).await,
                probe.peek(&steady, &plans, 2).await,
            );
            assert_eq!(said, expected, "{}", plans[0]);
        }
    }
}

/// A step back across the moment at which a window starts or a bucket is full takes nothing back.
pub async fn clock_step_back_before_the_first_request_is_harmless(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let start = probe.clock.now();
    for plan in each_algorithm(6) {
        let plans = [plan];
        probe.clock.set(start);
        probe.spend(&user, &plans, 1).await;
        probe.clock.step_back(Duration::from_secs(1));
        let behind = probe.acquire(&user, &plans, 1).await;
        assert!(behind.admitted, "{}", plans[0]);
        assert_eq!(only(&behind).remaining, 4, "{}", plans[0]);
        assert!(
            only(&behind).reset_after <= Duration::from_secs(61),
            "{}",
            plans[0]
        );
    }
}

/// Two keys on one clock see one time: what one spent at the same instant leaves at the same instant.
pub async fn all_keys_share_one_time(sut: &impl StoreUnderTest) {
    let probe = Probe::of(sut);
    let plans = [plan("bucket", "3/s"), plan("sliding", "sliding 3/s")];
    let verdicts = [
        probe.acquire(&key("one"), &plans, 2).await,
        probe.acquire(&key("other"), &plans, 2).await,
    ];
    assert_eq!(verdicts[0], verdicts[1]);
}
