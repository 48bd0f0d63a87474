//! Who shares attempts with whom: nobody with anybody.

use limiter_core::{AbusePolicy, Tier, minutes};

use super::super::AbuseStoreUnderTest;
use super::probe::{Probe, built, counts, key};

fn policy(name: &str) -> AbusePolicy {
    built(AbusePolicy::builder(name).tier(Tier::new("temp", 3, minutes(1))))
}

/// Keys that look alike have attempts of their own.
pub async fn distinct_keys_never_share_attempts(sut: &impl AbuseStoreUnderTest) {
    let mut probe = Probe::of(sut, policy("login"));
    let keys = [
        "a", "A", "a:", ":a", "{a}", "a}", "{", "%61", "a\0", "login:a", "ä",
    ];
    for text in keys {
        probe.key = key(text);
        assert_eq!(counts(&probe.record().await), [1], "{text:?}");
    }
    assert_eq!(sut.tracked_keys().await, keys.len());
}

/// One key has attempts of its own under each policy.
pub async fn distinct_policies_never_share_attempts(sut: &impl AbuseStoreUnderTest) {
    let mut probe = Probe::of(sut, policy("login"));
    let _ = probe.record_times(3).await;
    for name in ["signup", "log", "login.", "login-a"] {
        probe.policy = policy(name);
        assert_eq!(counts(&probe.record().await), [1], "{name}");
        probe.forgive().await;
    }
    probe.policy = policy("login");
    assert!(probe.status().await.block.is_some());
}

/// The case of a policy's name makes no other policy.
pub async fn policy_names_ignore_case(sut: &impl AbuseStoreUnderTest) {
    let mut probe = Probe::of(sut, policy("login"));
    let _ = probe.record_times(2).await;
    probe.policy = policy("LOGIN");
    assert!(probe.record().await.block.is_some());
}
