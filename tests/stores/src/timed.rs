//! [`timed`]: a store each call of which has to end by its deadline.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use limiter_core::{
    AbusePolicy, AbuseRepository, AbuseVerdict, Block, Cost, Key, Plan, RateLimiterRepository,
    Refund, StoreError, Verdict,
};

use crate::{Attempts, DEADLINE, Store};

/// What a call may take beyond its deadline.
const SLACK: Duration = Duration::from_millis(25);

/// Checks that a call ends by `deadline`, or 25 ms later at the latest, and that it never blocks its thread for so long.
///
/// The first is told by the runtime's own timers: a call that is over before a timer of deadline and slack fires was in time. When
/// the machine is so crowded that both are late, the call is looked at first. A call that blocks its thread keeps that timer from
/// firing; so what each of its turns waited for something other than the processor is counted by itself.
pub async fn ends_by<T>(deadline: Duration, call: impl Future<Output = T>) -> T {
    let call = unblocking(SLACK, call);
    let said = tokio::time::timeout(deadline + SLACK, call).await;
    said.expect("a call outlived its deadline by 25 ms")
}

/// Checks that no turn of a future keeps its thread waiting for longer than `most`: for a lock, a file, a sleep.
async fn unblocking<T>(most: Duration, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|context| {
        let before = ThreadTime::now();
        let polled = future.as_mut().poll(context);
        let blocked = before.blocked();
        assert!(blocked <= most, "a call blocked its thread for {blocked:?}");
        polled
    })
    .await
}

/// How long a thread has lived, worked, and been ready to work while the machine was busy with others.
struct ThreadTime {
    wall: Instant,
    worked: Duration,
    ready: Duration,
}

impl ThreadTime {
    /// The clock on the wall is read last: what comes between the clocks then is taken for work.
    fn now() -> Self {
        let (worked, ready) = Self::worked_and_ready();
        Self {
            wall: Instant::now(),
            worked,
            ready,
        }
    }

    fn worked_and_ready() -> (Duration, Duration) {
        let worked = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let worked = Duration::try_from(worked).expect("a time");
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
        let ready = stat.split(' ').nth(1).and_then(|ns| ns.parse().ok());
        (worked, Duration::from_nanos(ready.expect("a number")))
    }

    /// Returns how long the thread has waited since for something other than the processor.
    fn blocked(&self) -> Duration {
        // Here it is read first, for the same reason.
        let passed = self.wall.elapsed();
        let (worked, ready) = Self::worked_and_ready();
        passed.saturating_sub((worked - self.worked) + (ready - self.ready))
    }
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

/// The same for a store of attempts.
#[must_use]
pub fn timed_attempts(store: Attempts, deadline: Duration) -> Attempts {
    Arc::new(Timed { store, deadline })
}

struct Timed<S> {
    store: S,
    deadline: Duration,
}

#[async_trait]
impl RateLimiterRepository for Timed<Store> {
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

#[async_trait]
impl AbuseRepository for Timed<Attempts> {
    async fn record(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        ends_by(self.deadline, self.store.record(key, policy)).await
    }

    async fn status(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        ends_by(self.deadline, self.store.status(key, policy)).await
    }

    async fn forgive(&self, key: &Key, policy: &AbusePolicy) -> Result<(), StoreError> {
        ends_by(self.deadline, self.store.forgive(key, policy)).await
    }

    async fn unblock(&self, key: &Key, policy: &AbusePolicy) -> Result<Option<Block>, StoreError> {
        ends_by(self.deadline, self.store.unblock(key, policy)).await
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    #[test]
    #[should_panic(expected = "blocked its thread")]
    fn call_that_blocks_its_thread_is_caught() {
        limiter_testkit::block_on(in_time(async { sleep(2 * SLACK) }));
    }

    #[test]
    #[should_panic(expected = "outlived its deadline")]
    fn call_that_is_late_is_caught() {
        limiter_testkit::block_on(in_time(async { tokio::time::sleep(2 * DEADLINE).await }));
    }

    #[test]
    fn call_that_works_hard_blocks_nothing() {
        limiter_testkit::block_on(in_time(async {
            let began = Instant::now();
            while began.elapsed() < 2 * SLACK {}
        }));
    }
}
