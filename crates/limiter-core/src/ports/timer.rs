//! [`Timer`]: the outbound port to waiting.

use std::pin::Pin;
use std::time::Duration;

/// A wait that is under way. It is ready once its time has passed; dropped, it is called off.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Wakes a task after a while; the core has no runtime, and cannot wait by itself.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use limiter_core::{Sleep, Timer};
///
/// struct TokioTimer;
///
/// impl Timer for TokioTimer {
///     fn sleep(&self, wait: Duration) -> Sleep {
///         Box::pin(tokio::time::sleep(wait))
///     }
/// }
/// ```
#[cfg_attr(any(test, feature = "mock"), mockall::automock)]
pub trait Timer: Send + Sync {
    /// Returns a future that is ready once `wait` has passed.
    fn sleep(&self, wait: Duration) -> Sleep;
}
