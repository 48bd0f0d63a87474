//! [`Undecided`]: what became of a request that no plan and no policy decided.

use std::fmt;

use crate::{Rejection, RejectionReason};

/// What became of a request that no plan, and no policy on attempts, decided, so that no `Observer` of the limiter saw it.
///
/// For a counter of your own, by [`RateLimitLayerBuilder::on_undecided`](crate::RateLimitLayerBuilder::on_undecided) and
/// [`AbuseLayerBuilder::on_undecided`](crate::AbuseLayerBuilder::on_undecided): a few names, fit for the labels of a metric; no key
/// and no address. An abuse layer has no lists, routes and costs, and says nothing of them.
///
/// # Examples
/// ```
/// use limiter_axum::Undecided;
///
/// assert_eq!(Undecided::NoKey.as_str(), "no_key");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Undecided {
    /// It is not looked at: a path, a preflight or a condition that is skipped. It went on.
    Skipped,
    /// The caller is on the list of who is never limited. It went on.
    Allowed,
    /// The layer has no limit for its route, or counts only attempts of keys that the handler names. It went on; an extractor may
    /// still charge or count it, which the limiter decides.
    Unlimited,
    /// It lacks what its limit goes by, and [`MissingKey::Skip`](crate::MissingKey::Skip) lets such requests pass. It went on.
    PassedWithoutKey,
    /// It lacks what its limit goes by, or has it in a form that makes no key. It was turned away.
    NoKey,
    /// The caller is on the deny list. It was turned away.
    Forbidden,
    /// It costs more than its plan can ever admit. It was turned away.
    CostTooLarge,
    /// The limit, or the store, is set up wrongly. It was turned away, and the log says what to do.
    Misconfigured,
}

impl Undecided {
    /// Each of them: for counters that are to begin at 0.
    pub const ALL: &'static [Self] = &[
        Self::Skipped,
        Self::Allowed,
        Self::Unlimited,
        Self::PassedWithoutKey,
        Self::NoKey,
        Self::Forbidden,
        Self::CostTooLarge,
        Self::Misconfigured,
    ];

    /// Returns the name used in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Allowed => "allowed",
            Self::Unlimited => "unlimited",
            Self::PassedWithoutKey => "passed_without_key",
            Self::NoKey => "no_key",
            Self::Forbidden => "forbidden",
            Self::CostTooLarge => "cost_too_large",
            Self::Misconfigured => "misconfigured",
        }
    }

    /// Says so of a refusal; of one that the limiter decided, nothing.
    pub(crate) fn of(rejection: &Rejection) -> Option<Self> {
        match rejection.reason() {
            RejectionReason::NoKey => Some(Self::NoKey),
            RejectionReason::Forbidden => Some(Self::Forbidden),
            RejectionReason::CostTooLarge => Some(Self::CostTooLarge),
            RejectionReason::Misconfigured => Some(Self::Misconfigured),
            RejectionReason::LimitExceeded
            | RejectionReason::TooManyAttempts
            | RejectionReason::StoreUnavailable => None,
        }
    }
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
