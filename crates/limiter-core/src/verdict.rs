//! [`Verdict`]: what a store answers.

use std::time::Duration;

use smallvec::SmallVec;

use crate::Timestamp;
use crate::math::Suppression;

/// What a store answers to one call: numbers only, in the order of the plans that were asked for.
///
/// A verdict allocates nothing for chains of up to two plans. [`Decision`](crate::Decision) is the form for people, with
/// names and reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an unread verdict limits nobody"]
pub struct Verdict {
    /// Who decided.
    pub source: Source,
    /// Whether every enforced plan admitted the request.
    pub admitted: bool,
    /// How long until all enforced plans admit this same request if nobody else spends; zero if it was admitted.
    pub retry_after: Duration,
    /// What each plan said, in the order in which they were asked.
    pub plans: SmallVec<[PlanVerdict; 2]>,
}

impl Verdict {
    /// Returns the verdict under no plans at all.
    pub(crate) fn of_none() -> Self {
        Self {
            source: Source::Store,
            admitted: true,
            retry_after: Duration::ZERO,
            plans: SmallVec::new(),
        }
    }

    /// Returns what turns a request away under so many plans, because no store could decide.
    pub(crate) fn turned_away(plans: usize) -> Self {
        Self {
            source: Source::FailClosed,
            admitted: false,
            plans: SmallVec::from_elem(PlanVerdict::default(), plans),
            ..Self::of_none()
        }
    }

    /// Returns what a store answers that admits a request under one plan.
    #[inline]
    pub(crate) fn admitted_by_one(plan: PlanVerdict) -> Self {
        Self {
            source: Source::Store,
            admitted: true,
            retry_after: Duration::ZERO,
            plans: SmallVec::from_buf_and_len([plan, PlanVerdict::default()], 1),
        }
    }
}

/// What one plan of a chain said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PlanVerdict {
    /// Whether this plan admitted the request. A shadow plan may say no to an admitted one.
    pub admits: bool,
    /// The store's moment at which this plan was charged: what a [`Refund`](crate::Refund) names. `None` if it was not charged.
    ///
    /// It is as this plan counts time, so never before the last charge, also if the store's clock stepped back since.
    pub charged_at: Option<Timestamp>,
    /// Units that are free after this call.
    pub remaining: u32,
    /// How long until the plan is as good as unused.
    pub reset_after: Duration,
    /// How long until this plan admits this same request; zero if it does.
    pub retry_after: Duration,
    /// Units that will be free once the verdict's `retry_after` has passed, if nobody else spends.
    pub free_after_wait: u32,
    /// The share of requests that a suppressing window is refusing.
    pub suppression: Suppression,
    /// The state was of another algorithm: the plan changed, and starts afresh.
    pub restarted: bool,
}

/// Who made a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Source {
    /// The store that all nodes share.
    Store,
    /// The local store that stands in, with its share of each limit, while the shared one fails.
    Fallback,
    /// Nobody: the store failed, and the policy lets requests pass.
    FailOpen,
    /// Nobody: the store failed, and the policy turns requests away, or the local store failed as
    /// well.
    FailClosed,
}

impl Source {
    /// Returns the name used in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Fallback => "fallback",
            Self::FailOpen => "fail_open",
            Self::FailClosed => "fail_closed",
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}
