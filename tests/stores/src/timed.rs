//! [`timed`]: a store each call of which has to end by its deadline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use limiter_core::{Cost, Key, Plan, RateLimiterRepository, Refund, StoreError, Verdict};

use crate::{DEADLINE, Store};

/// What a call may take beyond its deadline.
const SLACK: Duration = Duration::from_millis(25);
/// What no call may take beyond its deadline by the clock on the wall, however crowded the machine: a thread was blocked then.
const BLOCKED: Duration = Duration::from_secs(2);

/// Checks that a call ends by `deadline`, or 25 ms later at the latest.
///
/// That is told by the runtime's own timers: a call that is over before a timer of deadline and slack fires was in time. When
/// the machine is so crowded that both are late, the call is looked at first.
pub async fn ends_by<T>(deadline: Duration, call: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let said = tokio::time::timeout(deadline + SLACK, call).await;
    let took = began.elapsed();
    assert!(took < deadline + BLOCKED, "a call took {took:?}");
    said.expect("a call outlived its deadline by 25 ms")
}

/// Checks that a call ends by the deadline that the README promises.
pub async fn in_time<T>(call: impl Future<Output = T>) -> T {
    ends_by(DEADLINE, call).await
}

/// Returns the store with a watch on each of its calls, whatever the test is about.
#[must_use]
pub fn timed(store: Store, deadline: Duration) -> Store {
    Arc::new(Timed { store, deadline })
}

struct Timed {
    store: Store,
    deadline: Duration,
}

#[async_trait]
impl RateLimiterRepository for Timed {
    async fn try_acquire(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        ends_by(self.deadline, self.store.try_acquire(key, plans, cost)).await
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        ends_by(self.deadline, self.store.peek(key, plans, cost)).await
    }

    async fn refund(
        &self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
    ) -> Result<Verdict, StoreError> {
        ends_by(self.deadline, self.store.refund(key, plans, refund)).await
    }

    async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        ends_by(self.deadline, self.store.reset(key, plans)).await
    }
}
