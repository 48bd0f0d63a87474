//! The Nth attempt inside a window blocks.

use limiter_core::{hours, minutes, seconds};

use super::super::AbuseStoreUnderTest;
use super::probe::{MICROSECOND, Probe, built, counts, one_tier, scope_and_wait, two_tiers};

/// The attempts before the threshold are allowed; the one that reaches it is turned away and told the whole block.
pub async fn nth_attempt_blocks(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(one_tier(5, minutes(10), minutes(15))));
    for nth in 1..5 {
        let verdict = probe.record().await;
        assert_eq!(
            (verdict.block.as_ref(), counts(&verdict)),
            (None, &[nth][..])
        );
        probe.advance_seconds(60);
    }
    let fifth = probe.record().await;
    assert_eq!(scope_and_wait(&fifth), Some(("temp", minutes(15))));
    assert_eq!(counts(&fifth), [5]);
}

/// A threshold of one blocks the first attempt.
pub async fn threshold_of_one_blocks_at_once(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(one_tier(1, seconds(1), seconds(2))));
    assert_eq!(
        scope_and_wait(&probe.record().await),
        Some(("temp", seconds(2)))
    );
}

/// Attempts in one and the same microsecond all count.
pub async fn attempts_in_one_microsecond_all_count(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(one_tier(50, minutes(1), minutes(1))));
    for nth in 1..50 {
        let verdict = probe.record().await;
        assert_eq!(
            (verdict.block.as_ref(), counts(&verdict)),
            (None, &[nth][..])
        );
    }
    assert!(probe.record().await.block.is_some());
}

/// An attempt counts until one window after it came, and not a microsecond longer.
pub async fn window_edges_are_exact(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(one_tier(2, seconds(10), seconds(1))));
    let _ = probe.record().await;
    probe.advance(seconds(10));
    let second = probe.record().await;
    assert_eq!((second.block.as_ref(), counts(&second)), (None, &[1][..]));
    probe.advance(seconds(10).saturating_sub(MICROSECOND));
    assert_eq!(counts(&probe.status().await), [1]);
    assert!(probe.record().await.block.is_some());
    probe.advance(MICROSECOND);
    assert_eq!(counts(&probe.status().await), [1]);
}

/// Each tier counts in its own window, and all counts are told in the policy's order.
pub async fn every_tier_counts_in_its_own_window(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(two_tiers()));
    for (nth, in_ten_seconds) in [(1, 1), (2, 2), (3, 2), (4, 2)] {
        let verdict = probe.record().await;
        assert_eq!(
            (verdict.block.as_ref(), counts(&verdict)),
            (None, &[in_ten_seconds, nth][..])
        );
        probe.advance_seconds(5);
    }
    probe.advance(hours(1));
    assert_eq!(counts(&probe.status().await), [0, 0]);
}

/// Slow attempts that never reach the short tier reach the long one.
pub async fn slow_attempts_reach_the_long_tier(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(two_tiers()));
    for _ in 0..5 {
        assert_eq!(probe.record().await.block, None);
        probe.advance_seconds(600);
    }
    assert_eq!(
        scope_and_wait(&probe.record().await),
        Some(("long", hours(2)))
    );
}
