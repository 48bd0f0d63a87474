//! A clock that steps back counts as standing still.

use limiter_core::seconds;

use super::super::AbuseStoreUnderTest;
use super::probe::{Probe, built, counts, one_tier, scope_and_wait};

/// Attempts that were counted still count when the clock steps back, and new ones are counted at the latest time.
pub async fn clock_step_back_forgets_no_attempt(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(one_tier(3, seconds(10), seconds(30))));
    let _ = probe.record_times(2).await;
    probe.clock.step_back(seconds(1));
    assert_eq!(counts(&probe.status().await), [2]);
    let third = probe.record().await;
    assert_eq!(scope_and_wait(&third), Some(("temp", seconds(31))));
    probe.advance_seconds(11);
    assert_eq!(counts(&probe.status().await), [0]);
}

/// A clock that steps back does not bring back a block that has been seen to end.
pub async fn clock_step_back_brings_no_block_back(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(one_tier(2, seconds(1), seconds(5))));
    let _ = probe.record_times(2).await;
    probe.advance_seconds(5);
    assert_eq!(probe.record().await.block, None);
    probe.clock.step_back(seconds(1));
    assert_eq!(probe.status().await.block, None);
}

/// A block holds while the clock is behind, and its wait is by that clock.
pub async fn clock_step_back_ends_no_block(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(one_tier(2, seconds(1), seconds(5))));
    let _ = probe.record_times(2).await;
    probe.clock.step_back(seconds(1));
    assert_eq!(
        scope_and_wait(&probe.status().await),
        Some(("temp", seconds(6)))
    );
    probe.advance_seconds(6);
    assert_eq!(probe.status().await.block, None);
}
