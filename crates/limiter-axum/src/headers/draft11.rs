//! `RateLimit-Policy` and `RateLimit`, as in draft-ietf-httpapi-ratelimit-headers-11.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use limiter_core::{Decision, Limit, PlanDecision, Source};

use super::{RATELIMIT, RATELIMIT_POLICY, shown, whole_seconds};

/// Adds a member for each plan to both fields. Both are lists, which may be spread over several lines.
///
/// The two lines are written behind each other into one piece of memory, which they share.
pub(super) fn append(decision: &Decision, headers: &mut HeaderMap) {
    const MEMBERS: usize = 96;
    let mut lines = Vec::with_capacity(decision.plans().len() * MEMBERS);
    for plan in shown(decision) {
        begin_member(&mut lines, 0, plan);
        push_parameter(&mut lines, b";q=", u64::from(plan.limit.units()));
        if let Some(window_s) = whole_window_s(plan.limit) {
            push_parameter(&mut lines, b";w=", window_s);
        }
    }
    let policies = lines.len();
    for plan in shown(decision) {
        begin_member(&mut lines, policies, plan);
        push_parameter(&mut lines, b";r=", u64::from(plan.remaining));
        if let Some(window_s) = effective_window_s(plan, decision.source()) {
            push_parameter(&mut lines, b";t=", window_s);
        }
    }
    let mut policy_line = Bytes::from(lines);
    let limit_line = policy_line.split_off(policies);
    append_line(RATELIMIT_POLICY, policy_line, headers);
    append_line(RATELIMIT, limit_line, headers);
}

/// Returns for how long no more than what remains may be spent, if that is known: at least 1 second.
///
/// - A plan that denies: the wait of this request, so that `Retry-After` is never earlier.
/// - A fixed window: what is left of it.
/// - Units remain: as long as they last at the plan's rate, so that a client that spends them evenly keeps to the plan.
/// - A bucket that is empty: the time until the next token.
/// - A sliding window that is full: nothing, as when its oldest unit leaves is not told.
/// - A local store that stands in, once this node's share is spent: nothing, as the plan's rate says nothing of the share's.
pub(super) fn effective_window_s(plan: &PlanDecision, source: Source) -> Option<u64> {
    if !plan.admits {
        return Some(whole_seconds(plan.retry_after));
    }
    let units = u64::from(plan.limit.units()).max(1);
    let window = plan.limit.window();
    match (&plan.limit, plan.remaining) {
        (Limit::FixedWindow(_), _) => Some(whole_seconds(plan.reset_after)),
        (Limit::TokenBucket(_), 0) if source == Source::Store => {
            let until_one_is_free = units - 1;
            let filling = share(window, until_one_is_free, units);
            Some(whole_seconds(plan.reset_after.saturating_sub(filling)))
        }
        (_, 0) => None,
        (_, remaining) => Some(whole_seconds(share(window, u64::from(remaining), units))),
    }
}

/// Returns `part / whole` of `window`, rounded up to a microsecond.
fn share(window: std::time::Duration, part: u64, whole: u64) -> std::time::Duration {
    let micros = (window.as_micros() * u128::from(part)).div_ceil(u128::from(whole));
    std::time::Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

/// The field has whole seconds only; a window that has none is left out rather than told wrongly.
fn whole_window_s(limit: Limit) -> Option<u64> {
    let window = limit.window();
    (window.subsec_nanos() == 0 && window.as_secs() > 0).then_some(window.as_secs())
}

/// A plan's name needs no escapes: letters, digits and `._-` alone.
fn begin_member(line: &mut Vec<u8>, start: usize, plan: &PlanDecision) {
    if line.len() > start {
        line.extend_from_slice(b", ");
    }
    line.push(b'"');
    line.extend_from_slice(plan.name.as_str().as_bytes());
    line.push(b'"');
}

fn push_parameter(line: &mut Vec<u8>, name: &[u8], number: u64) {
    line.extend_from_slice(name);
    let start = line.len();
    let mut rest = number;
    loop {
        line.extend(u8::try_from(rest % 10).map(|digit| b'0' + digit));
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if let Some(digits) = line.get_mut(start..) {
        digits.reverse();
    }
}

fn append_line(name: HeaderName, line: Bytes, headers: &mut HeaderMap) {
    if let Ok(value) = HeaderValue::from_maybe_shared(line) {
        headers.append(name, value);
    }
}
