//! A policy that gets other numbers under the same name.

use limiter_core::{AbusePolicy, Tier, hours, seconds};

use super::super::AbuseStoreUnderTest;
use super::probe::{Probe, built, counts, one_tier, scope_and_wait, two_tiers};

/// Attempts are kept, and counted in the new windows against the new thresholds.
pub async fn changed_policy_keeps_attempts(sut: &impl AbuseStoreUnderTest) {
    let mut probe = Probe::of(sut, built(one_tier(5, seconds(60), seconds(60))));
    let _ = probe.record_times(3).await;
    probe.policy = built(one_tier(4, seconds(30), seconds(10)));
    assert_eq!(counts(&probe.status().await), [3]);
    assert_eq!(
        scope_and_wait(&probe.record().await),
        Some(("temp", seconds(10)))
    );
}

/// A block in force keeps its end and its scope, even if no tier is called that any more.
pub async fn changed_policy_keeps_a_block(sut: &impl AbuseStoreUnderTest) {
    let mut probe = Probe::of(sut, built(two_tiers()));
    let _ = probe.record_times(6).await;
    probe.advance(hours(1));
    probe.policy = built(AbusePolicy::builder("login").tier(Tier::new("only", 100, seconds(1))));
    let verdict = probe.record().await;
    assert_eq!(scope_and_wait(&verdict), Some(("long", hours(1))));
    assert_eq!(counts(&verdict), [1]);
}

/// A lower threshold lets go of what it cannot count; nothing but that is lost.
pub async fn lowered_threshold_keeps_the_newest_attempts(sut: &impl AbuseStoreUnderTest) {
    let mut probe = Probe::of(sut, built(one_tier(100, seconds(60), seconds(5))));
    let _ = probe.record_times(50).await;
    probe.policy = built(one_tier(3, seconds(60), seconds(5)));
    let verdict = probe.record().await;
    assert_eq!(counts(&verdict), [3]);
    assert_eq!(scope_and_wait(&verdict), Some(("temp", seconds(5))));
}
