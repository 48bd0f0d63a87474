#![doc = include_str!("../README.md")]
#![warn(clippy::pedantic)]

pub mod abuse;
mod breaker;
mod chain;
mod challenge;
mod cost;
mod deadline;
mod decision;
mod default_rate_limiter;
mod dotted;
mod failure_policy;
mod fallback;
mod in_memory_plan_registry;
mod key;
mod limit;
mod log;
pub mod math;
mod period;
mod plan;
mod plan_name;
mod ports;
mod receipt;
mod refund;
mod request;
mod resolvers;
mod store_error;
mod timestamp;
mod verdict;
mod verify;

pub use abuse::{
    AbuseDecision, AbuseFailurePolicy, AbuseGuard, AbuseOutcome, AbusePolicy, AbusePolicyBuilder,
    AbuseVerdict, Block, BlockChange, BlockEvent, DefaultAbuseLimiter, Escalation,
    InvalidAbusePolicy, Refusal, RefusalCode, RefusalContext, Tier, TierCount, TierRule,
    WhileBlocked,
};
pub use breaker::{
    BreakerMode, BreakerSettings, BreakerState, CircuitBreaker, CircuitOpen, InvalidBreakerSettings,
};
pub use challenge::{Challenge, InvalidChallenge};
pub use cost::{Cost, InvalidCost};
pub use deadline::{DeadlinePassed, DeadlineRepository};
pub use decision::{CheckError, Decision, Denial, Outcome, PlanDecision, Reason};
pub use default_rate_limiter::DefaultRateLimiter;
pub use failure_policy::FailurePolicy;
pub use fallback::{FallbackRepository, InvalidShare, LocalStore, Share, ShareTooSmall};
pub use in_memory_plan_registry::{DuplicatePlan, InMemoryPlanRegistry};
pub use key::{InvalidKey, Key};
pub use limit::{
    BucketRule, FixedRule, FixedWindow, InvalidLimit, Limit, MAX_UNITS, Rate, SlidingWindow,
    SuppressingRule, SuppressingWindow, TokenBucket, WindowRule,
};
pub use log::{FailureLog, LogThrottle};
pub use period::{days, hours, minutes, seconds};
pub use plan::{Enforcement, InvalidPlan, Plan};
pub use plan_name::{InvalidPlanName, PlanName};
#[cfg(any(test, feature = "mock"))]
pub use ports::mock;
pub use ports::{
    AbuseLimiter, AbuseRepository, Clock, InProcessRepository, KeyResolver, NoObserver, Observer,
    PlanRegistry, RandomSource, RateLimiter, RateLimiterRepository, RequestSource, Sleep, Timer,
    UnknownPlan, UnresolvedKey,
};
pub use receipt::Receipt;
pub use refund::{Refund, check_refund};
pub use request::{InvalidRequest, MAX_CHAIN, check_request};
pub use resolvers::{CompositeKeyResolver, HeaderKeyResolver, PrincipalKeyResolver};
pub use store_error::{Cause, Charge, StoreError};
pub use timestamp::{InvalidTimestamp, Timestamp};
pub use verdict::{PlanVerdict, Source, Verdict};
pub use verify::verify;
