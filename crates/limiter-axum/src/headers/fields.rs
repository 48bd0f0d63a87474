//! [`Fields`]: what a decision adds to a response.

use std::num::NonZeroU64;

use http::{HeaderMap, StatusCode};
use limiter_core::Decision;

use super::{HeaderStyle, PolicyLine, draft11, exhausted_seconds, keep_longest, legacy, shown};

/// What a decision adds to the fields of a response, once there is one.
pub(crate) struct Fields {
    draft11: Option<draft11::Lines>,
    legacy: Option<legacy::Numbers>,
    /// Raises a `Retry-After` that is there, in any style.
    exhausted_s: Option<NonZeroU64>,
}

impl Fields {
    /// Writes down what `decision` says, if anything is told at all; `policy` keeps the line that tells the plans, if there is a
    /// place to keep it.
    #[inline]
    pub(crate) fn of(
        style: &HeaderStyle,
        decision: &Decision,
        policy: Option<&PolicyLine>,
    ) -> Option<Self> {
        // Spares a call where nothing is told, as nearly always where fields are not wanted.
        if style.is_off() && shown(decision).all(|plan| plan.remaining > 0) {
            return None;
        }
        Self::written(style, decision, policy)
    }

    fn written(
        style: &HeaderStyle,
        decision: &Decision,
        policy: Option<&PolicyLine>,
    ) -> Option<Self> {
        shown(decision).next()?;
        let exhausted_s = exhausted_seconds(decision).and_then(NonZeroU64::new);
        if style.is_off() && exhausted_s.is_none() {
            return None;
        }
        let lines = || draft11::Lines::of(decision, policy);
        let numbers = |reset| legacy::Numbers::of(decision, reset);
        Some(Self {
            draft11: style.has_draft11().then(lines).flatten(),
            legacy: style.legacy().and_then(numbers),
            exhausted_s,
        })
    }

    /// Adds them to what is there from other layers.
    pub(crate) fn write(self, status: StatusCode, headers: &mut HeaderMap) {
        // A client might wait before it follows a redirection.
        if status.is_redirection() {
            return;
        }
        if let Some(lines) = self.draft11 {
            lines.add(headers);
        }
        if let Some(numbers) = self.legacy {
            numbers.keep_strictest(headers);
        }
        if let Some(exhausted_s) = self.exhausted_s
            && headers.contains_key(http::header::RETRY_AFTER)
        {
            keep_longest(exhausted_s.get(), headers);
        }
    }
}
