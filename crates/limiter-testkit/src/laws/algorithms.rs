//! What each algorithm promises, in numbers.

use std::time::Duration;

use limiter_core::math::Suppression;

use super::probe::{MICROSECOND, Probe, key, only, plan};
use crate::StoreUnderTest;

/// A full bucket admits exactly its capacity at one instant, in ones and in one.
pub async fn full_bucket_admits_exactly_its_capacity_at_one_instant(sut: &impl StoreUnderTest) {
    let probe = Probe::of(sut);
    for (limit, capacity) in [
        ("10/s", 10),
        ("1/366d", 1),
        ("7/s burst 33", 33),
        ("5.5/s", 5),
    ] {
        let plans = [plan("bucket", limit)];
        assert_eq!(
            probe.drain(&key(limit), &plans, 100).await,
            capacity,
            "{limit}"
        );
    }
    let plans = [plan("huge", "1000000000/s")];
    assert!(
        probe
            .acquire(&key("huge"), &plans, 999_999_999)
            .await
            .admitted
    );
    assert!(!probe.acquire(&key("huge"), &plans, 2).await.admitted);
    probe.spend(&key("huge"), &plans, 1).await;
}

/// A bucket that is asked far more often than it refills admits on time all the same: no fraction is ever lost.
pub async fn polling_never_starves_a_slow_refill(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    // A token comes every 142,857 us and a seventh; asking comes every 1,013 us.
    let plans = [plan("bucket", "7/s burst 1")];
    let mut admitted = 0;
    for _ in 0..1_000 {
        admitted += u32::from(probe.acquire(&user, &plans, 1).await.admitted);
        probe.advance(Duration::from_micros(1_013));
    }
    // Each admission comes with the first asking after its token: every 142nd, at 143,846 us.
    assert_eq!(admitted, 1 + 999 / 142);
}

/// Tokens come at the exact rate for ever: spending each as it comes loses no microsecond.
pub async fn token_bucket_does_not_drift(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let plans = [plan("bucket", "3/s burst 1")];
    probe.spend(&user, &plans, 1).await;
    let mut waited = Duration::ZERO;
    for nth in 1..=300_u64 {
        let wait = probe.peek(&user, &plans, 1).await.retry_after;
        probe.advance(wait);
        waited += wait;
        probe.spend(&user, &plans, 1).await;
        // A bucket of one that is full for a fraction of a microsecond loses that fraction, and no more.
        assert!(waited >= Duration::from_micros((nth * 1_000_000).div_ceil(3)));
        assert!(waited <= Duration::from_micros(nth * 333_334));
    }
}

/// A bucket with room to spare is never full, so that it gives back exactly what comes in, to the microsecond.
pub async fn token_bucket_loses_no_fraction(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let plans = [plan("bucket", "1000003/24h burst 20")];
    probe.spend(&user, &plans, 20).await;
    let mut waited_us = 0_u128;
    for nth in 1..=200_u128 {
        let wait = probe.peek(&user, &plans, 1).await.retry_after;
        probe.advance(wait);
        waited_us += wait.as_micros();
        probe.spend(&user, &plans, 1).await;
        assert_eq!(waited_us, (nth * 86_400_000_000).div_ceil(1_000_003));
    }
}

/// In no interval as long as the window is more than the limit admitted, though increments share sub-buckets.
pub async fn sliding_window_never_exceeds_its_limit_in_any_window(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let plans = [plan("sliding", "sliding 10/1s every 250ms")];
    let mut admitted_at: Vec<u64> = Vec::new();
    for nth in 0..600_u64 {
        if probe.acquire(&user, &plans, 1).await.admitted {
            admitted_at.push(nth * 13);
        }
        probe.advance(Duration::from_millis(13));
    }
    for (nth, start) in admitted_at.iter().enumerate() {
        let within = admitted_at[nth..]
            .iter()
            .take_while(|at| **at < start + 1_000);
        assert!(
            within.count() <= 10,
            "too many within a second of {start} ms"
        );
    }
    assert!(
        admitted_at.len() > 60,
        "only {} were admitted",
        admitted_at.len()
    );
}

/// Units that share a sub-bucket leave one window after the last of them: held back by less than the granularity.
pub async fn shared_sub_bucket_leaves_after_its_last_increment(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let plans = [plan("sliding", "sliding 10/10s every 1s")];
    probe.spend(&user, &plans, 1).await;
    probe.advance(Duration::from_millis(600));
    probe.spend(&user, &plans, 2).await;
    probe.advance(Duration::from_micros(399_999));
    let last = probe.acquire(&user, &plans, 3).await;
    assert_eq!(only(&last).reset_after, Duration::from_secs(10));
    // One granularity after the first of them, the next units have a sub-bucket of their own.
    probe.advance(MICROSECOND);
    probe.spend(&user, &plans, 4).await;
    probe.advance(Duration::from_secs(10) - MICROSECOND * 2);
    assert_eq!(probe.free(&user, &plans[0]).await, 0);
    probe.advance(MICROSECOND);
    assert_eq!(probe.free(&user, &plans[0]).await, 6);
    probe.advance(MICROSECOND);
    assert_eq!(probe.free(&user, &plans[0]).await, 10);
}

/// A fixed window starts at the first admitted request, not at a round time, and ends one window later.
pub async fn fixed_window_starts_at_the_first_admitted_request(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let plans = [plan("fixed", "fixed 5/10s")];
    probe.advance(Duration::from_micros(3_333_333));
    assert_eq!(
        only(&probe.acquire(&user, &plans, 1).await).reset_after,
        Duration::from_secs(10)
    );
    probe.advance(Duration::from_secs(10) - MICROSECOND);
    assert_eq!(probe.drain(&user, &plans, 9).await, 4);
    probe.advance(MICROSECOND);
    // Twice the limit across the boundary, as documented; and the next window starts here.
    assert_eq!(probe.drain(&user, &plans, 9).await, 5);
    let denied = probe.acquire(&user, &plans, 1).await;
    assert_eq!(denied.retry_after, Duration::from_secs(10));
    probe.advance(Duration::from_secs(25));
    assert_eq!(
        only(&probe.acquire(&user, &plans, 1).await).reset_after,
        Duration::from_secs(10)
    );
}

/// Up to the soft limit all is admitted, whatever is drawn.
pub async fn suppressing_window_admits_all_up_to_its_soft_limit(sut: &impl StoreUnderTest) {
    for bits in [0, u64::MAX] {
        let (probe, user) = (Probe::of(sut), key(&format!("user {bits}")));
        let plans = [plan("suppressing", "suppressing 10/10s hard 20")];
        probe.random.set(bits);
        for _ in 0..10 {
            let verdict = probe.acquire(&user, &plans, 1).await;
            assert!(verdict.admitted);
            assert_eq!(only(&verdict).suppression, Suppression::NONE);
        }
    }
}

/// From the hard limit on nothing is admitted, whatever is drawn, and denied requests count as observed.
pub async fn suppressing_window_admits_none_from_its_hard_limit_on(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let plans = [plan("suppressing", "suppressing 10/1s hard 20")];
    probe.random.set(u64::MAX);
    // The last unit below the hard limit has a chance, and this draw takes every chance there is.
    assert_eq!(probe.drain(&user, &plans, 50).await, 19);
    let denied = probe.acquire(&user, &plans, 1).await;
    assert_eq!(only(&denied).suppression, Suppression::ALL);
    probe.advance(Duration::from_millis(999));
    assert!(!probe.acquire(&user, &plans, 1).await.admitted);
    probe.advance(MICROSECOND * 1_000);
    // The one request that was denied a moment ago is still observed.
    assert_eq!(probe.free(&user, &plans[0]).await, 9);
}

/// A client that keeps asking stays out: what it asks in vain is observed.
pub async fn suppressing_window_observes_denied_requests(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let plans = [plan("suppressing", "suppressing 5/1s hard 5")];
    assert_eq!(probe.drain(&user, &plans, 9).await, 5);
    for _ in 0..50 {
        probe.advance(Duration::from_millis(100));
        assert!(!probe.acquire(&user, &plans, 1).await.admitted);
    }
    let tight = [plan("tight", "fixed 1/min"), plans[0].clone()];
    let other = key("denied by another plan");
    assert_eq!(probe.drain(&other, &tight, 3).await, 1);
    assert_eq!(probe.free(&other, &plans[0]).await, 3);
}

/// Between its limits, a request passes if the draw is at least the share that is being refused.
pub async fn suppressing_window_refuses_the_stated_share(sut: &impl StoreUnderTest) {
    let probe = Probe::of(sut);
    let plans = [plan("suppressing", "suppressing 10/1s hard 40")];
    // With 15 observed, the 16th makes the observed rate 16 a second: 10/16 of requests pass.
    for (draw, passes) in [
        (374_999, false),
        (375_000, true),
        (999_999, true),
        (0, false),
    ] {
        let user = key(&format!("user {draw}"));
        probe.random.set(0);
        for _ in 0..15 {
            let _ = probe.acquire(&user, &plans, 1).await;
        }
        probe.random.set(bits_of(draw));
        assert_eq!(probe.random.draw().get(), draw);
        let verdict = probe.acquire(&user, &plans, 1).await;
        assert_eq!(only(&verdict).suppression.millionths(), 375_000);
        assert_eq!(
            (verdict.admitted, only(&verdict).admits),
            (passes, passes),
            "draw {draw}"
        );
        assert!(
            !probe.peek(&user, &plans, 1).await.admitted,
            "a peek counts on no luck"
        );
    }
}

/// The observed rate is the higher of the window's average and of the last second.
pub async fn suppressing_window_looks_at_the_last_second(sut: &impl StoreUnderTest) {
    let (probe, burst, steady) = (Probe::of(sut), key("burst"), key("steady"));
    let plans = [plan(
        "suppressing",
        "suppressing 100/10s hard 200 every 40ms",
    )];
    probe.spend(&steady, &plans, 80).await;
    probe.advance(Duration::from_secs(5));
    probe.spend(&steady, &plans, 20).await;
    probe.spend(&burst, &plans, 100).await;
    probe.advance(Duration::from_millis(999));
    // Burst: 101 within the last second, where 10 a second are meant. Steady: 21 within it, of 101 in the window.
    let share = |verdict: &limiter_core::Verdict| only(verdict).suppression.millionths();
    assert_eq!(
        share(&probe.peek(&burst, &plans, 1).await),
        1_000_000 - 99_009
    );
    assert_eq!(
        share(&probe.peek(&steady, &plans, 1).await),
        1_000_000 - 476_190
    );
    probe.advance(Duration::from_millis(1));
    // Nothing within the last second but the request itself: the window's average counts.
    assert_eq!(
        share(&probe.peek(&burst, &plans, 1).await),
        1_000_000 - 990_099
    );
    assert_eq!(
        share(&probe.peek(&steady, &plans, 1).await),
        1_000_000 - 990_099
    );
}

/// Returns random bits that a store makes this draw of.
fn bits_of(draw: u32) -> u64 {
    let bits = ((u128::from(draw) << 64) / 1_000_000 + 1).min(u128::from(u64::MAX));
    u64::try_from(bits).unwrap_or(u64::MAX)
}
