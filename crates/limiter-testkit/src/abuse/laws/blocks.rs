//! What a block does while it is in force.

use limiter_core::{Clock, WhileBlocked, hours, minutes, seconds};

use super::super::AbuseStoreUnderTest;
use super::probe::{MICROSECOND, Probe, built, counts, one_tier, scope_and_wait, two_tiers};

/// A block holds for its whole time although the counts have long fallen below the threshold.
pub async fn block_outlives_falling_counts(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(one_tier(3, seconds(1), hours(1))));
    let _ = probe.record_times(3).await;
    probe.advance_seconds(1800);
    let verdict = probe.record().await;
    assert_eq!(counts(&verdict), [1]);
    assert_eq!(scope_and_wait(&verdict), Some(("temp", seconds(1800))));
    probe.advance(seconds(1800).saturating_sub(MICROSECOND));
    assert_eq!(
        scope_and_wait(&probe.status().await),
        Some(("temp", MICROSECOND))
    );
}

/// A block ends to the microsecond: wait as long as told and an attempt is allowed, one microsecond less and it is not.
pub async fn block_edges_are_exact(sut: &impl AbuseStoreUnderTest) {
    let policy = one_tier(2, seconds(1), seconds(5)).while_blocked(WhileBlocked::Ignore);
    let probe = Probe::of(sut, built(policy));
    let wait = probe
        .record_times(2)
        .await
        .block
        .map(|block| block.retry_after);
    let wait = wait.expect("the second attempt is blocked");
    probe.advance(wait - MICROSECOND);
    assert!(probe.record().await.block.is_some());
    probe.advance(MICROSECOND);
    assert_eq!(probe.status().await.block, None);
    assert_eq!(probe.record().await.block, None);
}

/// More attempts of the same tier do not prolong its block.
pub async fn block_is_not_prolonged_by_more_of_the_same(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(one_tier(3, minutes(1), seconds(30))));
    let since = probe.clock.now();
    let _ = probe.record_times(3).await;
    for gone in 1..30 {
        probe.advance_seconds(1);
        let verdict = probe.record().await;
        assert_eq!(scope_and_wait(&verdict), Some(("temp", seconds(30 - gone))));
        assert_eq!(verdict.block.map(|block| block.since), Some(since));
    }
}

/// Attempts that still count after a block has ended start the next one at once.
pub async fn attempts_that_still_count_block_again(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(one_tier(3, minutes(1), seconds(30))));
    let _ = probe.record_times(3).await;
    probe.advance_seconds(30);
    assert_eq!(probe.status().await.block, None);
    let again = probe.record().await;
    assert_eq!(scope_and_wait(&again), Some(("temp", seconds(30))));
    assert!(again.started);
}

/// The long block replaces the short one that runs; from then on the short tier has no say, though its count is reached.
pub async fn long_block_replaces_a_short_one_and_not_the_reverse(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(two_tiers()));
    let third = probe.record_times(3).await;
    assert_eq!(scope_and_wait(&third), Some(("temp", seconds(30))));
    probe.advance_seconds(1);
    let sixth = probe.record_times(3).await;
    assert_eq!(scope_and_wait(&sixth), Some(("long", hours(2))));
    assert!(sixth.started);
    for gone in [1, 2, 3, 7_180, 7_199] {
        let verdict = probe.status().await;
        let ends_in = scope_and_wait(&verdict).map(|(_, wait)| wait);
        let ends_in = ends_in.expect("the block is in force");
        probe.advance(ends_in.saturating_sub(seconds(7_200 - gone)));
        let verdict = probe.record_times(4).await;
        assert_eq!(
            scope_and_wait(&verdict),
            Some(("long", seconds(7_200 - gone)))
        );
        assert!(!verdict.started);
    }
}

/// A short block that starts late and ends after the long one takes its place: the later end wins.
pub async fn block_that_ends_later_wins(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(two_tiers()));
    for _ in 0..6 {
        let _ = probe.record().await;
        probe.advance_seconds(20);
    }
    probe.advance(hours(2).saturating_sub(seconds(30)));
    let second = probe.record_times(2).await;
    assert_eq!(scope_and_wait(&second), Some(("long", seconds(10))));
    let third = probe.record().await;
    assert_eq!(scope_and_wait(&third), Some(("temp", seconds(30))));
    probe.advance_seconds(29);
    assert_eq!(
        scope_and_wait(&probe.status().await),
        Some(("temp", seconds(1)))
    );
}

/// The scope is that of the block in force, though by now only another tier's count is reached.
pub async fn scope_is_that_of_the_block_in_force(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(two_tiers()));
    let _ = probe.record_times(6).await;
    probe.advance(minutes(90));
    let third = probe.record_times(3).await;
    assert_eq!(counts(&third), [3, 3]);
    assert_eq!(scope_and_wait(&third), Some(("long", minutes(30))));
}

/// Attempts while blocked count, unless the policy says otherwise.
pub async fn attempts_while_blocked_count_by_default(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(two_tiers()));
    let fifth = probe.record_times(5).await;
    assert_eq!(counts(&fifth), [5, 5]);
    probe.advance_seconds(30);
    assert_eq!(counts(&probe.status().await), [0, 5]);
    assert_eq!(
        scope_and_wait(&probe.record().await),
        Some(("long", hours(2)))
    );
}

/// Attempts while blocked leave no trace under a policy that ignores them.
pub async fn attempts_while_blocked_can_be_ignored(sut: &impl AbuseStoreUnderTest) {
    let policy = two_tiers().while_blocked(WhileBlocked::Ignore);
    let probe = Probe::of(sut, built(policy));
    let fifth = probe.record_times(5).await;
    assert_eq!(counts(&fifth), [3, 3]);
    probe.advance_seconds(30);
    let next = probe.record().await;
    assert_eq!((next.block.as_ref(), counts(&next)), (None, &[1, 4][..]));
}

/// Only the attempt that starts a block, or replaces one, says so.
pub async fn only_the_attempt_that_starts_a_block_says_so(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(two_tiers()));
    let mut started = Vec::new();
    for _ in 0..8 {
        started.push(probe.record().await.started);
    }
    let only = |nths: [usize; 2]| (0..8).map(|nth| nths.contains(&nth)).collect::<Vec<_>>();
    assert_eq!(started, only([2, 5]));
    assert!(!probe.status().await.started);
}

/// Reading changes nothing, however often it is done.
pub async fn status_changes_nothing(sut: &impl AbuseStoreUnderTest) {
    let probe = Probe::of(sut, built(two_tiers()));
    for _ in 0..10 {
        assert_eq!(counts(&probe.status().await), [0, 0]);
    }
    assert_eq!(sut.tracked_keys().await, 0);
    let _ = probe.record_times(2).await;
    for _ in 0..10 {
        assert_eq!(counts(&probe.status().await), [2, 2]);
    }
    assert!(probe.record().await.block.is_some());
}
