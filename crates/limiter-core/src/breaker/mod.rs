//! The circuit breaker.

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
