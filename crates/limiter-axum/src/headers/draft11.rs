//! `RateLimit-Policy` and `RateLimit`, as in draft-ietf-httpapi-ratelimit-headers-11.

use std::time::Duration;

use http::header::{Entry, HeaderMap, HeaderValue};
use limiter_core::{Decision, Limit, PlanDecision, Source};

use super::line::Line;
use super::{PolicyLine, RATELIMIT, RATELIMIT_POLICY, members, shown, whole_seconds};

/// Both fields, with a member for each plan.
pub(super) struct Lines {
    policy: HeaderValue,
    limit: HeaderValue,
}

impl Lines {
    pub(super) fn of(decision: &Decision, policy: Option<&PolicyLine>) -> Option<Self> {
        let policy = match policy {
            Some(kept) => kept.of(decision),
            None => policy_line(decision),
        };
        Some(Self {
            policy: policy?,
            limit: limit_line(decision)?,
        })
    }

    /// Adds them to what is there from other layers and charges: to nothing, mostly.
    pub(super) fn add(self, headers: &mut HeaderMap) {
        match headers.entry(RATELIMIT_POLICY) {
            Entry::Vacant(place) => {
                place.insert(self.policy);
                headers.append(RATELIMIT, self.limit);
            }
            Entry::Occupied(_) => members::add(self.policy, self.limit, headers),
        }
    }
}

/// Writes what the plans are.
pub(super) fn policy_line(decision: &Decision) -> Option<HeaderValue> {
    let mut line = Line::new();
    for PlanDecision { plan, .. } in shown(decision) {
        line.begin_member(plan.name().as_str());
        line.push_parameter(*b";q=", u64::from(plan.limit().units()));
        if let Some(window_s) = whole_window_s(*plan.limit()) {
            line.push_parameter(*b";w=", window_s);
        }
    }
    line.into_value()
}

/// Writes how the plans stand.
fn limit_line(decision: &Decision) -> Option<HeaderValue> {
    let mut line = Line::new();
    for standing in shown(decision) {
        line.begin_member(standing.plan.name().as_str());
        line.push_parameter(*b";r=", u64::from(standing.remaining));
        if let Some(window_s) = effective_window_s(standing, decision.source()) {
            line.push_parameter(*b";t=", window_s);
        }
    }
    line.into_value()
}

/// Returns for how long no more than what remains may be spent, if that is known: at least 1 second.
///
/// - A plan that denies: the wait of this request, so that `Retry-After` is never earlier.
/// - A fixed window: what is left of it.
/// - Units remain: as long as they last at the plan's rate, so that a client that spends them evenly keeps to the plan.
/// - A bucket that is empty: the time until the next token.
/// - A sliding window that is full: nothing, as when its oldest unit leaves is not told.
/// - A local store that stands in, once this node's share is spent: nothing, as the plan's rate says nothing of the share's.
pub(super) fn effective_window_s(standing: &PlanDecision, source: Source) -> Option<u64> {
    if !standing.admits {
        return Some(whole_seconds(standing.retry_after));
    }
    let wait = match (standing.plan.limit(), standing.remaining) {
        (Limit::FixedWindow(_), _) => standing.reset_after,
        (Limit::TokenBucket(rule), 0) if source == Source::Store => {
            let until_one_is_free = rule.capacity().saturating_sub(1);
            let rate = rule.rate();
            let filling = share(rate.period_us(), until_one_is_free, rate.units());
            standing.reset_after.saturating_sub(filling)
        }
        (_, 0) => return None,
        (Limit::TokenBucket(rule), remaining) => {
            share(rule.rate().period_us(), remaining, rule.rate().units())
        }
        (limit, remaining) => {
            let window_us = u64::try_from(limit.window().as_micros()).unwrap_or(u64::MAX);
            share(window_us, remaining, limit.units())
        }
    };
    Some(whole_seconds(wait))
}

/// Returns `part / whole` of a period, rounded up to a microsecond.
fn share(period_us: u64, part: u32, whole: u32) -> Duration {
    let (part, whole) = (u64::from(part), u64::from(whole.max(1)));
    let exact = || (u128::from(period_us) * u128::from(part)).div_ceil(u128::from(whole));
    let micros = period_us.checked_mul(part).map_or_else(
        || u64::try_from(exact()).unwrap_or(u64::MAX),
        |product| product.div_ceil(whole),
    );
    Duration::from_micros(micros)
}

/// The field has whole seconds only; a window that has none is left out rather than told wrongly.
fn whole_window_s(limit: Limit) -> Option<u64> {
    let window = limit.window();
    (window.subsec_nanos() == 0 && window.as_secs() > 0).then_some(window.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn prop_a_share_is_the_smallest_that_keeps_to_the_rate(
            period_us in 1_u64..40_000_000_000_000, part in 1_u32..=1_000_000_000, whole in 1_u32..=1_000_000_000,
        ) {
            let micros = share(period_us, part, whole).as_micros();
            let exact = u128::from(period_us) * u128::from(part);
            prop_assert!(micros * u128::from(whole) >= exact);
            prop_assert!((micros - 1) * u128::from(whole) < exact);
        }
    }
}
