//! The math: state, now, cost and draw to a verdict and the next state. Pure, and in whole numbers only.

mod bucket_decision;
mod charge_part;
mod decide;
mod fixed_window;
mod sliding_window;
mod state;
mod suppressing_window;
mod suppression;
mod token_bucket;
mod window_log;

pub use bucket_decision::BucketDecision;
use charge_part::ChargePart;
pub use decide::{decide, peek, refund};
pub use fixed_window::{CountedWindow, FixedState};
pub use state::State;
pub use suppression::{Draw, Suppression};
pub use token_bucket::BucketState;
pub use window_log::{SubBucket, WindowLog};
