//! How soon a circuit breaker with its defaults opens and closes, by a clock that the test moves.

#![allow(
    clippy::unwrap_used,
    reason = "a value that a test makes is good, or the test fails"
)]

mod load;
mod probes;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use limiter_core::{
    CircuitBreaker, Cost, Key, Plan, RateLimiterRepository, Source, StoreError, Verdict,
};

/// Fifty calls a second.
const EVERY: Duration = Duration::from_millis(20);
const SECOND: Duration = Duration::from_secs(1);

fn admitted() -> Verdict {
    Verdict {
        source: Source::Store,
        admitted: true,
        retry_after: Duration::ZERO,
        plans: [limiter_core::PlanVerdict::default()].into_iter().collect(),
    }
}

type Answer = Result<Verdict, StoreError>;
type Call = Pin<Box<dyn Future<Output = Answer> + Send>>;

fn call<R: RateLimiterRepository + 'static>(breaker: &Arc<CircuitBreaker<R>>) -> Call {
    let breaker = Arc::clone(breaker);
    Box::pin(async move {
        let plans = [Plan::new("gold", "10/s").unwrap()];
        let ann = Key::new("ann").unwrap();
        breaker.try_acquire(&ann, &plans, Cost::ONE).await
    })
}

fn poll<F: Future + Unpin>(mut future: F) -> Poll<F::Output> {
    Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()))
}
