//! `X-RateLimit-Limit`, `-Remaining` and `-Reset`.

use http::HeaderMap;
use limiter_core::{Decision, PlanDecision};

use super::retry_after::whole_number;
use super::{
    LegacyReset, X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING, X_RATELIMIT_RESET, shown, whole_seconds,
};

/// What the fields tell of the plan that is nearest to its end.
pub(super) struct Numbers {
    limit: u32,
    remaining: u32,
    reset: u64,
}

impl Numbers {
    pub(super) fn of(decision: &Decision, reset: &LegacyReset) -> Option<Self> {
        let standing = nearest_to_its_end(decision)?;
        Some(Self {
            limit: standing.plan.limit().units(),
            remaining: standing.remaining,
            reset: reset_of(standing, reset),
        })
    }

    /// Sets the fields, unless they are there and leave less.
    pub(super) fn keep_strictest(self, headers: &mut HeaderMap) {
        let there = headers
            .get(&X_RATELIMIT_REMAINING)
            .and_then(|value| value.to_str().ok())
            .and_then(whole_number);
        if there.is_some_and(|there| there <= self.remaining.into()) {
            return;
        }
        headers.insert(X_RATELIMIT_LIMIT, self.limit.into());
        headers.insert(X_RATELIMIT_REMAINING, self.remaining.into());
        headers.insert(X_RATELIMIT_RESET, self.reset.into());
    }
}

/// The plan that denied, or else the one with the smallest part left.
fn nearest_to_its_end(decision: &Decision) -> Option<&PlanDecision> {
    if let Some(denial) = decision.denial() {
        return shown(decision).find(|standing| *standing.plan.name() == denial.plan);
    }
    let part_left = |standing: &PlanDecision| {
        (
            u64::from(standing.remaining),
            u64::from(standing.plan.limit().units()),
        )
    };
    shown(decision).min_by(|a, b| {
        let ((left_a, of_a), (left_b, of_b)) = (part_left(a), part_left(b));
        (left_a * of_b).cmp(&(left_b * of_a))
    })
}

fn reset_of(standing: &PlanDecision, reset: &LegacyReset) -> u64 {
    match reset {
        LegacyReset::Seconds => whole_seconds(standing.reset_after),
        LegacyReset::UnixTime(clock) => {
            let moment_us = clock.now().saturating_add(standing.reset_after).as_micros();
            moment_us.div_ceil(1_000_000)
        }
    }
}
