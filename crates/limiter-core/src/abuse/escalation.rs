//! [`Escalation`]: longer blocks for who comes back.

use std::time::Duration;

use super::{InvalidAbusePolicy, TierRule};
use crate::limit::checked_period;

/// Longer blocks for repeat offenders: each relapse multiplies the block, up to a cap, and good conduct takes it back.
///
/// Every stretch of blocks is remembered as a strike. A block that begins with `s` strikes standing lasts
/// `block x factor^s`, at most `at_most`. A strike is forgotten for each whole `memory` that has passed since the last block
/// ended: who behaves for one `memory` after a first block starts at the plain block again. At most 32 strikes are kept.
///
/// | input | answer |
/// |---|---|
/// | factor of 0 or 1, or more than 100 | [`InvalidAbusePolicy::Factor`] |
/// | memory or cap below 1 ms, above 366 days or with parts of a microsecond | [`InvalidAbusePolicy::Period`] |
/// | cap below the block of a tier | [`InvalidAbusePolicy::CapTooShort`] |
///
/// # Examples
/// ```
/// use limiter_core::{AbusePolicy, Escalation, Tier, days, minutes};
///
/// // 15 minutes, 30, 60, ... up to a day, for who relapses within a week
/// let policy = AbusePolicy::builder("login")
///     .tier(Tier::new("temp", 5, minutes(15)))
///     .escalating(Escalation::doubling(days(7), days(1)))
///     .build()?;
/// assert!(policy.escalation().is_some());
/// # Ok::<(), limiter_core::InvalidAbusePolicy>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an escalation does nothing until a policy has it"]
pub struct Escalation {
    factor: u32,
    memory: Duration,
    at_most: Duration,
}

/// The most strikes that are kept.
pub(super) const MAX_STRIKES: u8 = 32;
const MAX_FACTOR: u32 = 100;

impl Escalation {
    /// Doubles the block at each relapse within `memory`, up to `at_most`.
    pub const fn doubling(memory: Duration, at_most: Duration) -> Self {
        Self {
            factor: 2,
            memory,
            at_most,
        }
    }

    /// Multiplies by `factor` instead.
    pub const fn by(mut self, factor: u32) -> Self {
        self.factor = factor;
        self
    }

    /// Returns what each relapse multiplies the block by.
    #[must_use]
    pub const fn factor(&self) -> u32 {
        self.factor
    }

    /// Returns how long without a block takes one strike away.
    #[must_use]
    pub const fn memory(&self) -> Duration {
        self.memory
    }

    /// Returns the longest block.
    #[must_use]
    pub const fn at_most(&self) -> Duration {
        self.at_most
    }
}

/// The checked numbers of an escalation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EscalationRule {
    asked: Escalation,
    factor: u64,
    memory_us: u64,
    at_most_us: u64,
}

impl EscalationRule {
    pub(super) fn new(asked: Escalation, tiers: &[TierRule]) -> Result<Self, InvalidAbusePolicy> {
        if !(2..=MAX_FACTOR).contains(&asked.factor) {
            return Err(InvalidAbusePolicy::Factor {
                factor: asked.factor,
            });
        }
        let period = |what, period| {
            checked_period(what, period).map_err(|cause| InvalidAbusePolicy::Period {
                of: "escalation".to_owned(),
                cause,
            })
        };
        let rule = Self {
            asked,
            factor: asked.factor.into(),
            memory_us: period("memory", asked.memory)?,
            at_most_us: period("cap", asked.at_most)?,
        };
        match tiers.iter().find(|tier| tier.block_us() > rule.at_most_us) {
            Some(tier) => Err(InvalidAbusePolicy::CapTooShort {
                tier: tier.name().clone(),
            }),
            None => Ok(rule),
        }
    }

    pub(super) const fn asked(&self) -> &Escalation {
        &self.asked
    }

    pub(super) const fn memory_us(&self) -> u64 {
        self.memory_us
    }

    /// Returns the length of a block that begins with `strikes` standing.
    pub(super) fn block_us(&self, first_us: u64, strikes: u8) -> u64 {
        let mut block_us = first_us;
        for _ in 0..strikes {
            if block_us >= self.at_most_us {
                break;
            }
            block_us = block_us.saturating_mul(self.factor);
        }
        block_us.min(self.at_most_us)
    }

    /// Returns how many of `strikes` still stand `good_us` after the last block ended.
    pub(super) fn standing(&self, strikes: u8, good_us: u64) -> u8 {
        let forgotten = u8::try_from(good_us / self.memory_us).unwrap_or(u8::MAX);
        strikes.saturating_sub(forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{days, seconds};

    fn rule(escalation: Escalation) -> EscalationRule {
        EscalationRule::new(escalation, &[]).unwrap()
    }

    #[test]
    fn blocks_double_up_to_the_cap() {
        let rule = rule(Escalation::doubling(days(1), seconds(100)));
        let lengths: Vec<u64> = [0, 1, 2, 3, 32]
            .map(|strikes| rule.block_us(30_000_000, strikes) / 1_000_000)
            .into();
        assert_eq!(lengths, [30, 60, 100, 100, 100]);
    }

    #[test]
    fn the_largest_numbers_stay_at_the_cap() {
        let rule = rule(Escalation::doubling(days(1), days(366)).by(100));
        assert_eq!(rule.block_us(1_000, MAX_STRIKES), 366 * 86_400_000_000);
    }

    #[test]
    fn each_whole_memory_without_a_block_takes_one_strike() {
        let rule = rule(Escalation::doubling(seconds(10), days(1)));
        let standing = |good_us| rule.standing(3, good_us);
        assert_eq!([standing(0), standing(9_999_999)], [3, 3]);
        assert_eq!([standing(10_000_000), standing(19_999_999)], [2, 2]);
        assert_eq!([standing(30_000_000), standing(u64::MAX)], [0, 0]);
    }
}
