//! What a success and an operator take back.

use limiter_core::{Clock, hours, seconds};

use super::super::AbuseStoreUnderTest;
use super::probe::{Probe, built, counts, scope_and_wait, two_tiers};

/// A success clears the attempts: the next ones count from zero.
pub async fn forgiving_clears_attempts(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(two_tiers()));
    for _ in 0..10 {
        let second = probe.record_times(2).await;
        assert_eq!(
            (second.block.as_ref(), counts(&second)),
            (None, &[2, 2][..])
        );
        probe.forgive().await;
        assert_eq!(counts(&probe.status().await), [0, 0]);
    }
    assert_eq!(sut.tracked_keys().await, 0);
    probe.forgive().await;
    assert_eq!(sut.tracked_keys().await, 0);
}

/// A success does not lift a block; after it the attempts count from zero.
pub async fn forgiving_keeps_a_block(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(two_tiers()));
    let _ = probe.record_times(5).await;
    probe.advance_seconds(10);
    probe.forgive().await;
    let status = probe.status().await;
    assert_eq!(scope_and_wait(&status), Some(("temp", seconds(20))));
    assert_eq!(counts(&status), [0, 0]);
    probe.advance_seconds(20);
    let next = probe.record().await;
    assert_eq!((next.block.as_ref(), counts(&next)), (None, &[1, 1][..]));
}

/// An unblocked key is as new: no block, no attempts, and the next attempt is allowed.
pub async fn unblocking_makes_a_key_as_new(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(two_tiers()));
    let since = probe.clock.now();
    let _ = probe.record_times(9).await;
    probe.advance_seconds(1);
    let lifted = probe.unblock().await.expect("there is a block");
    assert_eq!(
        (lifted.scope.as_str(), lifted.since, lifted.retry_after),
        ("long", since, hours(2).saturating_sub(seconds(1)))
    );
    assert_eq!(sut.tracked_keys().await, 0);
    let next = probe.record().await;
    assert_eq!((next.block.as_ref(), counts(&next)), (None, &[1, 1][..]));
}

/// To unblock who is not blocked changes nothing.
pub async fn unblocking_without_a_block_changes_nothing(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(two_tiers()));
    assert_eq!(probe.unblock().await, None);
    assert_eq!(sut.tracked_keys().await, 0);
    let _ = probe.record_times(2).await;
    assert_eq!(probe.unblock().await, None);
    assert_eq!(counts(&probe.status().await), [2, 2]);
    let _ = probe.record().await;
    probe.advance_seconds(30);
    assert_eq!(probe.unblock().await, None);
    assert_eq!(counts(&probe.status().await), [0, 3]);
}
