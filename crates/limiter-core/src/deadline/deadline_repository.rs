//! [`DeadlineRepository`]: a repository whose calls end in time, whatever the store does.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use async_trait::async_trait;

use crate::{
    AbusePolicy, AbuseRepository, AbuseVerdict, Block, Charge, Cost, Key, Plan,
    RateLimiterRepository, Refund, StoreError, Timer, Verdict,
};

/// A repository that gives up on calls that the store does not answer in time.
///
/// The stores of this project keep their deadlines by themselves. This is for a store of your own whose client may hang: put
/// it next to the store, inside of a [`CircuitBreaker`](crate::CircuitBreaker), which then sees the failures. It works for
/// both ports, [`RateLimiterRepository`] and [`AbuseRepository`].
///
/// A call that is given up is dropped. It fails with [`StoreError::Unavailable`], and [`Charge::Possible`] unless it only
/// reads. A store that answers at once starts no timer.
///
/// # Cancel safety
/// A call that is dropped, by its caller or at its deadline, drops the call to the store: that store's own promise holds.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use limiter_core::{DeadlineRepository, DefaultRateLimiter, PlanRegistry, RateLimiterRepository, Timer};
///
/// fn limiter(
///     plans: Arc<dyn PlanRegistry>, own_store: Arc<dyn RateLimiterRepository>, timer: Arc<dyn Timer>,
/// ) -> DefaultRateLimiter {
///     let in_time = DeadlineRepository::new(own_store, timer).with_deadline(Duration::from_millis(20));
///     DefaultRateLimiter::new(plans, Arc::new(in_time))
/// }
/// ```
pub struct DeadlineRepository<R: ?Sized> {
    inner: Arc<R>,
    timer: Arc<dyn Timer>,
    deadline: Duration,
}

impl<R: ?Sized> DeadlineRepository<R> {
    /// The deadline of a call if none is named.
    pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(50);

    /// Gives each call to `inner` the default deadline.
    #[must_use]
    pub fn new(inner: Arc<R>, timer: Arc<dyn Timer>) -> Self {
        Self {
            inner,
            timer,
            deadline: Self::DEFAULT_DEADLINE,
        }
    }

    /// Gives each call `deadline`. With zero, only what is answered at once is an answer.
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Waits for `call` as long as it may take; `charge` is what a call that is given up may have done.
    async fn in_time<T>(
        &self,
        charge: Charge,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let mut call = pin!(call);
        let mut sleep = None;
        poll_fn(|context| {
            if let Poll::Ready(answer) = call.as_mut().poll(context) {
                return Poll::Ready(answer);
            }
            let sleep = sleep.get_or_insert_with(|| self.timer.sleep(self.deadline));
            ready!(sleep.as_mut().poll(context));
            let deadline = self.deadline;
            Poll::Ready(Err(StoreError::unavailable(
                charge,
                DeadlinePassed { deadline },
            )))
        })
        .await
    }
}

#[async_trait]
impl<R: RateLimiterRepository + ?Sized> RateLimiterRepository for DeadlineRepository<R> {
    async fn try_acquire(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        let call = self.inner.try_acquire(key, plans, cost);
        self.in_time(Charge::Possible, call).await
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        let call = self.inner.peek(key, plans, cost);
        self.in_time(Charge::Impossible, call).await
    }

    async fn refund(
        &self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
    ) -> Result<Verdict, StoreError> {
        let call = self.inner.refund(key, plans, refund);
        self.in_time(Charge::Possible, call).await
    }

    async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        let call = self.inner.reset(key, plans);
        self.in_time(Charge::Possible, call).await
    }
}

#[async_trait]
impl<R: AbuseRepository + ?Sized> AbuseRepository for DeadlineRepository<R> {
    async fn record(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        let call = self.inner.record(key, policy);
        self.in_time(Charge::Possible, call).await
    }

    async fn status(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        let call = self.inner.status(key, policy);
        self.in_time(Charge::Impossible, call).await
    }

    async fn forgive(&self, key: &Key, policy: &AbusePolicy) -> Result<(), StoreError> {
        let call = self.inner.forgive(key, policy);
        self.in_time(Charge::Possible, call).await
    }

    async fn unblock(&self, key: &Key, policy: &AbusePolicy) -> Result<Option<Block>, StoreError> {
        let call = self.inner.unblock(key, policy);
        self.in_time(Charge::Possible, call).await
    }
}

/// Says that a store did not answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no answer within {deadline:?}; the call was given up, and may still take effect")]
pub struct DeadlinePassed {
    /// How long it was waited for.
    pub deadline: Duration,
}
