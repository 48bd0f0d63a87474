//! Random policies, mostly small, so that few attempts reach their edges.

use std::time::Duration;

use limiter_core::{AbusePolicy, AbusePolicyBuilder, Escalation, Tier, WhileBlocked};
use proptest::prelude::*;

/// Returns policies called `name`: 1 to 4 tiers, windows and blocks of a millisecond to a day, with and without escalation.
pub fn policies(name: &'static str) -> impl Strategy<Value = AbusePolicy> {
    let tiers = prop::collection::vec((1..=4_u32, periods(), periods()), 1..=4);
    let escalation = prop::option::of((2..=4_u32, periods(), periods()));
    (tiers, any::<bool>(), escalation).prop_filter_map(
        "the policy is accepted",
        move |(tiers, ignores, escalation)| {
            let (mut threshold, mut window, mut block) = (0, Duration::ZERO, Duration::ZERO);
            let named = ["a", "b", "c", "d"].into_iter().zip(tiers);
            let tiers = named.map(|(name, (more, longer, longer_block))| {
                threshold += more;
                window = window.max(longer);
                block = block.max(longer_block);
                Tier::new(name, threshold, window).blocking_for(block)
            });
            let policy = tiers.fold(AbusePolicy::builder(name), AbusePolicyBuilder::tier);
            let policy = match ignores {
                true => policy.while_blocked(WhileBlocked::Ignore),
                false => policy,
            };
            let policy = match escalation {
                Some((factor, memory, more)) => {
                    policy.escalating(Escalation::doubling(memory, block + more).by(factor))
                }
                None => policy,
            };
            policy.build().ok()
        },
    )
}

fn periods() -> impl Strategy<Value = Duration> {
    prop_oneof![
        4 => (1_000..=20_000_u64).prop_map(Duration::from_micros),
        4 => (20_001..=3_000_000_u64).prop_map(Duration::from_micros),
        2 => (1..=600_u64).prop_map(Duration::from_secs),
        1 => (1..=24_u64).prop_map(|hours| Duration::from_secs(hours * 3600)),
    ]
}
