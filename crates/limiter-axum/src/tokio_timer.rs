//! [`TokioTimer`]: waits on tokio.

use std::time::Duration;

use limiter_core::{Sleep, Timer};

/// Waits on tokio, for the deadlines of a store of your own.
///
/// Needs a runtime with its timer enabled, as `#[tokio::main]` makes one.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use limiter_axum::TokioTimer;
/// use limiter_core::{DeadlineRepository, RateLimiterRepository};
///
/// fn in_time(own_store: Arc<dyn RateLimiterRepository>) -> Arc<dyn RateLimiterRepository> {
///     Arc::new(DeadlineRepository::new(own_store, Arc::new(TokioTimer)))
/// }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioTimer;

impl Timer for TokioTimer {
    fn sleep(&self, wait: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_takes_as_long_as_it_is_told() {
        let start = tokio::time::Instant::now();
        TokioTimer.sleep(Duration::from_millis(50)).await;
        assert_eq!(start.elapsed(), Duration::from_millis(50));
    }
}
