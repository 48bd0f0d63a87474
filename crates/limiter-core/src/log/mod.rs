//! What an operator must hear, though nobody asked for it: that a store fails, and that it answers again.

mod failure_log;
mod log_clock;
mod log_throttle;

pub use failure_log::FailureLog;
pub(crate) use failure_log::with_causes;
pub use log_throttle::LogThrottle;
