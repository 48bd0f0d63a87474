//! [`AbuseVerdict`]: what a store answers about attempts.

use std::time::Duration;

use smallvec::SmallVec;

use super::MAX_TIERS;
use crate::{PlanName, Source, Timestamp};

/// What a store answers to one call: the block in force, and the counts in the order of the policy's tiers.
///
/// Whether the policy is in shadow is not the store's business: it answers as if it were not.
/// [`AbuseDecision`](crate::AbuseDecision) is the form for people, with names and thresholds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an unread verdict blocks nobody"]
pub struct AbuseVerdict {
    /// Who decided.
    pub source: Source,
    /// The block in force, if there is one: the attempt is turned away.
    pub block: Option<Block>,
    /// Whether this very attempt started the block in force, or replaced another one by it.
    pub started: bool,
    /// The attempts in the window of each tier, this one included if it counted; at most the policy's largest threshold.
    pub counts: SmallVec<[u32; MAX_TIERS]>,
}

/// A block in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The tier that started it.
    pub scope: PlanName,
    /// When it started.
    pub since: Timestamp,
    /// How long it still lasts. Wait exactly that long and it is over; one microsecond less and it is not.
    pub retry_after: Duration,
}
