//! [`BlockEvent`]: a block that started or was lifted.

use crate::{Enforcement, PlanName};

/// A block that started or was lifted, for [`Observer`](crate::Observer). Names only: fit for the labels of a metric such as
/// `limiter_blocked_total{policy,scope}`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockEvent {
    /// The policy.
    pub policy: PlanName,
    /// The tier whose block it is.
    pub scope: PlanName,
    /// What happened to the block.
    pub change: BlockChange,
    /// Whether the policy blocks, or only reports that it would.
    pub enforcement: Enforcement,
}

/// What happened to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockChange {
    /// It started, or replaced one that ends sooner.
    Started,
    /// It was lifted by hand. That a block has run out is no event: nobody is there to see it.
    Lifted,
}

impl BlockChange {
    /// Returns the name used in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Lifted => "lifted",
        }
    }
}

impl std::fmt::Display for BlockChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}
