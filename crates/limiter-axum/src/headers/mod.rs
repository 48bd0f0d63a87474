//! The response fields: what a client may still ask for, and when to come back.

mod draft11;
mod fields;
mod legacy;
mod line;
mod members;
mod policy_line;
mod retry_after;
mod style;

use http::HeaderName;
use limiter_core::{Decision, PlanDecision};

pub(crate) use fields::Fields;
pub(crate) use policy_line::PolicyLine;
pub(crate) use retry_after::{keep_longest, whole_seconds};
pub use style::{HeaderStyle, LegacyReset};

pub(crate) const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(crate) const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
pub(crate) const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
pub(crate) const X_RATELIMIT_REMAINING: HeaderName =
    HeaderName::from_static("x-ratelimit-remaining");
pub(crate) const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The response fields that this crate may set and that browsers hide from scripts unless told otherwise.
///
/// Give them to your CORS layer (`CorsLayer::expose_headers(limiter_axum::EXPOSED_HEADERS)`), and put that layer outside of the
/// rate limit: else a browser shows a 429 as a network error.
pub const EXPOSED_HEADERS: [HeaderName; 7] = [
    http::header::RETRY_AFTER,
    http::header::WWW_AUTHENTICATE,
    RATELIMIT,
    RATELIMIT_POLICY,
    X_RATELIMIT_LIMIT,
    X_RATELIMIT_REMAINING,
    X_RATELIMIT_RESET,
];

/// The plans that clients are told of: a plan on trial never changes a response.
fn shown(decision: &Decision) -> impl Iterator<Item = &PlanDecision> {
    let is_enforced = |standing: &&PlanDecision| standing.plan.is_enforced();
    decision.plans().iter().filter(is_enforced)
}

/// The longest `t` of the plans that are shown as exhausted.
fn exhausted_seconds(decision: &Decision) -> Option<u64> {
    shown(decision)
        .filter(|plan| plan.remaining == 0)
        .filter_map(|plan| draft11::effective_window_s(plan, decision.source()))
        .max()
}
