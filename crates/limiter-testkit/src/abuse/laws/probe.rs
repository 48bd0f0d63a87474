//! [`Probe`]: short words for what laws do to a store of attempts.

use std::sync::Arc;
use std::time::Duration;

use limiter_core::{
    AbusePolicy, AbusePolicyBuilder, AbuseRepository, AbuseVerdict, Block, Key, Tier, hours,
    seconds,
};

use super::super::AbuseStoreUnderTest;
use crate::ManualClock;

/// One store and its clock, one key and one policy; every call has to succeed.
pub(super) struct Probe {
    pub(super) store: Arc<dyn AbuseRepository>,
    pub(super) clock: ManualClock,
    pub(super) key: Key,
    pub(super) policy: AbusePolicy,
}

pub(super) const MICROSECOND: Duration = Duration::from_micros(1);

impl Probe {
    /// Asks about one key under `policy`.
    pub(super) fn of(sut: &impl AbuseStoreUnderTest, policy: AbusePolicy) -> Self {
        Self {
            store: sut.store(),
            clock: sut.clock(),
            key: key("203.0.113.9"),
            policy,
        }
    }

    pub(super) async fn record(&self) -> AbuseVerdict {
        let verdict = self.store.record(&self.key, &self.policy).await;
        verdict.expect("record gives a verdict")
    }

    /// Records `times` attempts; returns the last answer.
    pub(super) async fn record_times(&self, times: u32) -> AbuseVerdict {
        for _ in 1..times {
            let _ = self.record().await;
        }
        self.record().await
    }

    pub(super) async fn status(&self) -> AbuseVerdict {
        let verdict = self.store.status(&self.key, &self.policy).await;
        verdict.expect("status gives a verdict")
    }

    pub(super) async fn forgive(&self) {
        let done = self.store.forgive(&self.key, &self.policy).await;
        done.expect("forgive is confirmed");
    }

    pub(super) async fn unblock(&self) -> Option<Block> {
        let lifted = self.store.unblock(&self.key, &self.policy).await;
        lifted.expect("unblock is confirmed")
    }

    pub(super) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    pub(super) fn advance_seconds(&self, by: u32) {
        self.clock.advance(seconds(by));
    }
}

pub(super) fn key(text: &str) -> Key {
    Key::new(text).expect("laws use good keys")
}

pub(super) fn built(policy: AbusePolicyBuilder) -> AbusePolicy {
    policy.build().expect("laws use good policies")
}

/// Starts the policy that most laws use: 3 in 10 s block for 30 s, 6 in an hour block for 2 hours.
pub(super) fn two_tiers() -> AbusePolicyBuilder {
    AbusePolicy::builder("login")
        .tier(Tier::new("temp", 3, seconds(10)).blocking_for(seconds(30)))
        .tier(Tier::new("long", 6, hours(1)).blocking_for(hours(2)))
}

/// Starts a policy of one tier.
pub(super) fn one_tier(threshold: u32, window: Duration, block: Duration) -> AbusePolicyBuilder {
    AbusePolicy::builder("login").tier(Tier::new("temp", threshold, window).blocking_for(block))
}

/// Returns the scope and the wait of the block in force.
pub(super) fn scope_and_wait(verdict: &AbuseVerdict) -> Option<(&str, Duration)> {
    let block = verdict.block.as_ref()?;
    Some((block.scope.as_str(), block.retry_after))
}

pub(super) fn counts(verdict: &AbuseVerdict) -> &[u32] {
    &verdict.counts
}
