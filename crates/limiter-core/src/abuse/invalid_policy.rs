//! [`InvalidAbusePolicy`]: why tiers make no policy.

use super::{MAX_THRESHOLD, MAX_TIERS};
use crate::{InvalidLimit, PlanName};

/// Says why tiers and options make no [`AbusePolicy`](crate::AbusePolicy), and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidAbusePolicy {
    /// The name of the policy or of a tier is not allowed.
    #[error(
        "{of} name {name:?} is not allowed: a name is a letter, then up to 63 letters, digits, '.', '_' or '-', such as \"login\""
    )]
    Name {
        /// What it was to name: `policy` or `tier`.
        of: &'static str,
        /// The name, or its beginning.
        name: String,
    },
    /// The policy has no tier.
    #[error("the policy has no tier and would never block: give it 1 to {MAX_TIERS} tiers")]
    NoTiers,
    /// The policy has too many tiers.
    #[error("the policy has {tiers} tiers: 1 to {MAX_TIERS} are allowed")]
    TooManyTiers {
        /// How many there were.
        tiers: usize,
    },
    /// Two tiers have one name, case apart.
    #[error("two tiers are called {name}: a block could not say which of them it is")]
    DuplicateTier {
        /// The name.
        name: PlanName,
    },
    /// A threshold is zero, or so large that a key would take too much memory.
    #[error(
        "tier {tier} has threshold {threshold}: 1 to {MAX_THRESHOLD} is allowed (0 would block who never tried, \
         and a key keeps one moment for each attempt up to the threshold)"
    )]
    Threshold {
        /// The tier.
        tier: PlanName,
        /// The threshold given.
        threshold: u32,
    },
    /// A period is out of bounds.
    #[error("{of}: {cause}")]
    Period {
        /// Which tier, or the escalation.
        of: String,
        /// What is wrong with it.
        #[source]
        cause: InvalidLimit,
    },
    /// A tier has a shorter window than the one before it.
    #[error(
        "tier {tier} has a shorter window than {before} before it: list tiers from the shortest window to the longest"
    )]
    WindowsNotAscending {
        /// The earlier tier.
        before: PlanName,
        /// The tier with the shorter window.
        tier: PlanName,
    },
    /// A tier has no higher threshold than the one before it, although its window is at least as long.
    #[error(
        "tier {tier} needs no more attempts than {before}, in a window that is no shorter: {before} would never decide; \
         raise the threshold of {tier} or leave {before} out"
    )]
    ThresholdsNotAscending {
        /// The tier that would never decide.
        before: PlanName,
        /// The tier with the longer window.
        tier: PlanName,
    },
    /// A tier has a shorter block than the one before it, although it takes more to earn it.
    #[error(
        "tier {tier} is harder to reach than {before} and blocks for less: give it a block at least as long"
    )]
    ShorterBlock {
        /// The milder tier.
        before: PlanName,
        /// The tier with the shorter block.
        tier: PlanName,
    },
    /// An escalation multiplies by nothing useful.
    #[error("escalation multiplies by {factor}: 2 to 100 is allowed")]
    Factor {
        /// The factor given.
        factor: u32,
    },
    /// The cap of an escalation is below the block of a tier.
    #[error("escalation caps blocks below the plain block of tier {tier}: raise the cap")]
    CapTooShort {
        /// The tier.
        tier: PlanName,
    },
}

impl InvalidAbusePolicy {
    pub(super) fn name(of: &'static str, name: &str) -> Self {
        let name = name.chars().take(PlanName::MAX_LEN).collect();
        Self::Name { of, name }
    }
}
