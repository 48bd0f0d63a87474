//! The circuit breaker: a decorator of the repository port.

mod call_window;
mod circuit_breaker;
mod machine;
mod settings;
mod silence;

pub use circuit_breaker::{BreakerMode, CircuitBreaker, CircuitOpen};
pub use settings::{BreakerSettings, InvalidBreakerSettings};

/// Where a circuit breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// Calls go through and are counted.
    Closed,
    /// Calls fail at once; the store is left alone for a while.
    Open,
    /// One call at a time goes through, to see whether the store is back.
    HalfOpen,
}

impl BreakerState {
    /// Returns the name used in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}
