//! The domain of limiter.
#![warn(clippy::pedantic)]

mod breaker;
mod cost;
mod decision;
mod key;
mod limit;
pub mod math;
mod period;
mod plan;
mod plan_name;
mod ports;
mod request;
mod store_error;
mod timestamp;
mod verdict;

pub use breaker::BreakerState;
pub use cost::{Cost, InvalidCost};
pub use decision::{CheckError, Decision, Denial, Outcome, PlanDecision, Reason};
pub use key::{InvalidKey, Key};
pub use limit::{
    BucketRule, FixedRule, FixedWindow, InvalidLimit, Limit, MAX_UNITS, Rate, SlidingWindow,
    SuppressingRule, SuppressingWindow, TokenBucket, WindowRule,
};
pub use period::{days, hours, minutes, seconds};
pub use plan::{Enforcement, InvalidPlan, Plan};
pub use plan_name::{InvalidPlanName, PlanName};
#[cfg(any(test, feature = "mock"))]
pub use ports::mock;
pub use ports::{
    Clock, KeyResolver, NoObserver, Observer, PlanRegistry, RandomSource, RateLimiter,
    RateLimiterRepository, RequestSource, UnknownPlan, UnresolvedKey,
};
pub use request::{InvalidRequest, MAX_CHAIN, check_request};
pub use store_error::{Cause, Charge, StoreError};
pub use timestamp::{InvalidTimestamp, Timestamp};
pub use verdict::{PlanVerdict, Source, Verdict};
