//! [`AbuseDecision`]: the answer to one attempt.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{AbusePolicy, AbuseVerdict, Block, BlockChange, BlockEvent};
use crate::{Enforcement, PlanName, Source, StoreError, Timestamp};

/// The answer to one attempt: allowed or blocked, who decided, and the count of every tier.
///
/// Its `Display` is one line for a debug log; it holds no key.
#[derive(Clone, Debug)]
#[must_use = "an unread decision blocks nobody"]
pub struct AbuseDecision {
    policy: PlanName,
    enforcement: Enforcement,
    outcome: AbuseOutcome,
    shadow_block: Option<Block>,
    source: Source,
    started: bool,
    tiers: Vec<TierCount>,
    failure: Option<Arc<StoreError>>,
}

/// Allowed or blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbuseOutcome {
    /// The attempt may go on.
    Allowed,
    /// A block is in force.
    Blocked {
        /// The tier whose block it is.
        scope: PlanName,
        /// How long the block still lasts.
        retry_after: Duration,
        /// When it started.
        since: Timestamp,
    },
    /// The attempt is turned away because the store failed and nothing could stand in for it.
    Unavailable,
}

/// How one tier stands after a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierCount {
    /// The tier's name.
    pub name: PlanName,
    /// Attempts in its window, at most the policy's largest threshold: more are not kept.
    pub count: u32,
    /// The number of the attempt that starts its block.
    pub threshold: u32,
}

impl AbuseDecision {
    /// Puts names to a verdict under `policy`.
    pub(super) fn from_verdict(policy: &AbusePolicy, verdict: AbuseVerdict) -> Self {
        let tiers = policy.tiers().iter().zip(verdict.counts);
        let tiers = tiers.map(|(tier, count)| TierCount {
            name: tier.name().clone(),
            count,
            threshold: tier.threshold(),
        });
        let (outcome, shadow_block) = match (verdict.block, policy.enforcement()) {
            (Some(block), Enforcement::Enforced) => (block.into(), None),
            (block, _) => (AbuseOutcome::Allowed, block),
        };
        Self {
            policy: policy.name().clone(),
            enforcement: policy.enforcement(),
            outcome,
            shadow_block,
            source: verdict.source,
            started: verdict.started,
            tiers: tiers.collect(),
            failure: None,
        }
    }

    /// Makes the decision that stands in for a store's; nothing is known of the tiers. A policy in shadow turns nobody
    /// away, not even then.
    pub(super) fn without_store(
        policy: &AbusePolicy,
        outcome: AbuseOutcome,
        source: Source,
    ) -> Self {
        let outcome = match policy.enforcement() {
            Enforcement::Enforced => outcome,
            Enforcement::Shadow => AbuseOutcome::Allowed,
        };
        Self {
            policy: policy.name().clone(),
            enforcement: policy.enforcement(),
            outcome,
            shadow_block: None,
            source,
            started: false,
            tiers: Vec::new(),
            failure: None,
        }
    }

    /// Returns what is set up wrongly about the store, if that is why it failed.
    pub(super) fn misconfiguration(&self) -> Option<Arc<StoreError>> {
        let is_misconfigured =
            |error: &&Arc<StoreError>| matches!(***error, StoreError::Misconfigured { .. });
        self.failure.as_ref().filter(is_misconfigured).cloned()
    }

    /// Says which failure of the store the decision stands in for.
    pub(super) fn because_of(mut self, failure: Arc<StoreError>) -> Self {
        self.failure = Some(failure);
        self
    }

    /// Returns whether the attempt may go on.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        matches!(self.outcome, AbuseOutcome::Allowed)
    }

    /// Returns allowed, blocked or unavailable.
    #[must_use]
    pub const fn outcome(&self) -> &AbuseOutcome {
        &self.outcome
    }

    /// Returns how long to wait, if a block is in force.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.outcome {
            AbuseOutcome::Blocked { retry_after, .. } => Some(retry_after),
            AbuseOutcome::Allowed | AbuseOutcome::Unavailable => None,
        }
    }

    /// Returns the tier whose block is in force, if one is.
    #[must_use]
    pub const fn scope(&self) -> Option<&PlanName> {
        match &self.outcome {
            AbuseOutcome::Blocked { scope, .. } => Some(scope),
            AbuseOutcome::Allowed | AbuseOutcome::Unavailable => None,
        }
    }

    /// Returns the block that would be in force if the policy were not in shadow.
    #[must_use]
    pub const fn shadow_block(&self) -> Option<&Block> {
        self.shadow_block.as_ref()
    }

    /// Returns the name of the policy.
    #[must_use]
    pub const fn policy(&self) -> &PlanName {
        &self.policy
    }

    /// Returns who decided.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// Returns how each tier stands, in the policy's order; empty if the store failed and nothing stood in for it.
    #[must_use]
    pub fn tiers(&self) -> &[TierCount] {
        &self.tiers
    }

    /// Returns how the store failed, if it did: the decision is that of the failure policy then.
    #[must_use]
    pub fn failure(&self) -> Option<&StoreError> {
        self.failure.as_deref()
    }

    /// Returns the event that an observer is told, if this decision's attempt started a block.
    #[must_use]
    pub fn event(&self) -> Option<BlockEvent> {
        let scope = match (&self.outcome, &self.shadow_block) {
            (AbuseOutcome::Blocked { scope, .. }, _) => scope,
            (_, Some(block)) => &block.scope,
            _ => return None,
        };
        self.started.then(|| BlockEvent {
            policy: self.policy.clone(),
            scope: scope.clone(),
            change: BlockChange::Started,
            enforcement: self.enforcement,
        })
    }
}

impl From<Block> for AbuseOutcome {
    fn from(block: Block) -> Self {
        Self::Blocked {
            scope: block.scope,
            retry_after: block.retry_after,
            since: block.since,
        }
    }
}

impl fmt::Display for AbuseDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            AbuseOutcome::Allowed => write!(f, "{}: allowed", self.policy)?,
            AbuseOutcome::Blocked {
                scope, retry_after, ..
            } => write!(
                f,
                "{}: blocked by {scope}, retry after {retry_after:?}",
                self.policy
            )?,
            AbuseOutcome::Unavailable => write!(f, "{}: turned away", self.policy)?,
        }
        write!(f, " ({}", self.source)?;
        if let Some(failure) = &self.failure {
            write!(f, ", store {}", failure.kind())?;
        }
        f.write_str(")")?;
        match (self.enforcement, &self.shadow_block) {
            (Enforcement::Shadow, Some(block)) => {
                let Block {
                    scope, retry_after, ..
                } = block;
                write!(
                    f,
                    "; in shadow, would be blocked by {scope}, retry after {retry_after:?}"
                )?;
            }
            (Enforcement::Shadow, None) => f.write_str("; in shadow")?,
            (Enforcement::Enforced, _) => {}
        }
        self.tiers.iter().try_for_each(|tier| {
            let TierCount {
                name,
                count,
                threshold,
            } = tier;
            write!(f, "; {name}: {count} of {threshold}")
        })
    }
}
