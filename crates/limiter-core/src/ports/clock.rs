//! [`Clock`]: the outbound port to the time.

use crate::Timestamp;

/// Tells the time to what needs it; the core never asks by itself.
///
/// A clock may step back: everything that reads one treats that as standing still.
#[cfg_attr(any(test, feature = "mock"), mockall::automock)]
pub trait Clock: Send + Sync {
    /// Returns the present moment.
    fn now(&self) -> Timestamp;
}
