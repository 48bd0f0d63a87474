//! The second use case: attempts, tiers and blocks.
//!
//! A policy has tiers. The Nth attempt inside a tier's window starts that tier's block. The functions here are the pure
//! math: policy, state and now to a verdict and the next state. [`AbuseLimiter`](crate::AbuseLimiter) is what services call.
//!
//! | word | meaning |
//! |---|---|
//! | attempt | one call of `record`; several in one microsecond count as several |
//! | in a window | came less than one window ago; exactly one window later it has left |
//! | block in force | the block that turns attempts away now; its tier is the *scope* |
//! | stretch | an unbroken time of blocks; each tier starts its block at most once in it |
//! | relapse | a block that begins a new stretch while an earlier one is remembered ([`Escalation`]) |

mod block_event;
mod decision;
mod default_abuse_limiter;
mod escalation;
mod guard;
mod invalid_policy;
mod math;
mod policy;
mod refusal;
mod state;
mod tier;
mod verdict;

pub use block_event::{BlockChange, BlockEvent};
pub use decision::{AbuseDecision, AbuseOutcome, TierCount};
pub use default_abuse_limiter::{AbuseFailurePolicy, DefaultAbuseLimiter};
pub use escalation::Escalation;
pub use guard::AbuseGuard;
pub use invalid_policy::InvalidAbusePolicy;
pub use math::{forgive, record, status, unblock};
pub use policy::{AbusePolicy, AbusePolicyBuilder, MAX_THRESHOLD, MAX_TIERS, WhileBlocked};
pub use refusal::{Refusal, RefusalCode, RefusalContext};
pub use state::AbuseState;
pub use tier::{Tier, TierRule};
pub use verdict::{AbuseVerdict, Block};
