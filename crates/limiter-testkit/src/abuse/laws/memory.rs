//! Memory is bounded, and nothing stays behind.

use std::time::Duration;

use limiter_core::{AbusePolicy, Escalation, Tier, hours, minutes, seconds};

use super::super::AbuseStoreUnderTest;
use super::probe::{MICROSECOND, Probe, built, counts, key, one_tier, scope_and_wait, two_tiers};

/// Longer than any store keeps what is outlived, for a clock that steps back.
const GRACE: Duration = Duration::from_secs(60);

/// A key that is hammered takes at most 16 bytes for each attempt up to the largest threshold, and 256 more.
pub async fn state_is_bounded_under_hammering(sut: &impl AbuseStoreUnderTest) {
    let policy = AbusePolicy::builder("login")
        .tier(Tier::new("temp", 5, minutes(10)))
        .tier(Tier::new("long", 100, hours(24)));
    let probe = Probe::of(sut, built(policy));
    for attempts in [1_u32, 4, 5, 50, 100, 1_000, 5_000] {
        let _ = probe.record_times(attempts).await;
        probe.advance(MICROSECOND);
        if let Some(bytes) = sut.bytes_of(&probe.key, &probe.policy).await {
            assert!(bytes <= 16 * 100 + 256, "{bytes} bytes");
        }
    }
    assert_eq!(counts(&probe.status().await), [100, 100]);
}

/// Once windows, blocks and relapses have run out, nothing of a key stays behind.
pub async fn nothing_of_an_idle_key_stays_behind(sut: &impl AbuseStoreUnderTest) {
    let plain = Probe::of(sut, built(two_tiers()));
    let _ = plain.record_times(2).await;
    let escalation = Escalation::doubling(hours(3), hours(2));
    let mut escalated = Probe::of(sut, built(two_tiers().escalating(escalation)));
    escalated.key = key("198.51.100.7");
    let _ = escalated.record_times(3).await;
    assert_eq!(sut.tracked_keys().await, 2);
    plain.advance(hours(1) + GRACE);
    sut.forget_idle().await;
    assert_eq!(sut.tracked_keys().await, 1);
    plain.advance(hours(2));
    sut.forget_idle().await;
    assert_eq!(sut.tracked_keys().await, 0);
}

/// Freeing memory takes nothing that still counts, to the last microsecond.
pub async fn forgetting_takes_nothing_that_still_counts(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(one_tier(2, seconds(10), seconds(30))));
    let _ = probe.record().await;
    probe.advance(seconds(10) - MICROSECOND);
    sut.forget_idle().await;
    assert_eq!(
        scope_and_wait(&probe.record().await),
        Some(("temp", seconds(30)))
    );
    probe.advance(seconds(30) - MICROSECOND);
    sut.forget_idle().await;
    assert_eq!(
        scope_and_wait(&probe.status().await),
        Some(("temp", MICROSECOND))
    );
}

/// A state that has outlived its time answers like none at all, whether or not it was freed.
pub async fn outlived_state_equals_no_state(sut: &impl AbuseStoreUnderTest) {
    let escalation = Escalation::doubling(seconds(20), seconds(60));
    let policy = one_tier(2, seconds(10), seconds(30)).escalating(escalation);
    let probe = Probe::of(sut, built(policy));
    for forgets in [false, true, false] {
        let _ = probe.record_times(3).await;
        probe.advance_seconds(50);
        if forgets {
            probe.advance(GRACE);
            sut.forget_idle().await;
        }
        let status = probe.status().await;
        assert_eq!((status.block.as_ref(), counts(&status)), (None, &[0][..]));
        assert_eq!(probe.record().await.block, None);
        let second = probe.record().await;
        assert_eq!(scope_and_wait(&second), Some(("temp", seconds(30))));
        probe.advance_seconds(50);
    }
}

/// At no time is there a key that nothing would ever free.
pub async fn no_key_is_without_an_end(sut: &impl AbuseStoreUnderTest) {
    let escalation = Escalation::doubling(hours(1), hours(2));
    let probe = Probe::of(sut, built(two_tiers().escalating(escalation)));
    for _ in 0..8 {
        let _ = probe.record().await;
        assert_eq!(sut.immortal_keys().await, 0);
    }
    probe.forgive().await;
    assert_eq!(sut.immortal_keys().await, 0);
    assert!(probe.unblock().await.is_some());
    assert_eq!(sut.immortal_keys().await, 0);
    assert_eq!(sut.tracked_keys().await, 0);
}
