//! [`ManualTimer`]: waits that end when tests say so.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use limiter_core::{Sleep, Timer};

/// A timer whose time passes only when it is told to: deadlines are tested to the microsecond, and nothing sleeps.
///
/// Clones share one time.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use limiter_core::Timer;
/// use limiter_testkit::{ManualTimer, block_on};
///
/// let timer = ManualTimer::new();
/// let sleep = timer.sleep(Duration::from_millis(50));
/// block_on(async {
///     let waiting = tokio::spawn(sleep);
///     timer.until_somebody_sleeps().await;
///     timer.advance(Duration::from_millis(50));
///     waiting.await.unwrap();
/// });
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualTimer {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    passed: Duration,
    sleepers: BTreeMap<u64, (Duration, Waker)>,
    watchers: Vec<Waker>,
    next_sleeper: u64,
}

impl ManualTimer {
    /// Starts a timer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets time pass, and wakes who has slept long enough.
    pub fn advance(&self, by: Duration) {
        let mut shared = self.lock();
        shared.passed = shared.passed.saturating_add(by);
        let passed = shared.passed;
        let woken = shared
            .sleepers
            .extract_if(.., |_, (until, _)| *until <= passed);
        let woken: Vec<Waker> = woken.map(|(_, (_, waker))| waker).collect();
        drop(shared);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Says whether anybody is asleep: a wait that is dropped is called off.
    #[must_use]
    pub fn is_anybody_asleep(&self) -> bool {
        !self.lock().sleepers.is_empty()
    }

    /// Waits until somebody is asleep.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn until_somebody_sleeps(&self) {
        poll_fn(|context| {
            let mut shared = self.lock();
            if !shared.sleepers.is_empty() {
                return Poll::Ready(());
            }
            shared.watchers.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timer for ManualTimer {
    fn sleep(&self, wait: Duration) -> Sleep {
        let mut shared = self.lock();
        shared.next_sleeper += 1;
        Box::pin(Sleeper {
            timer: self.clone(),
            until: shared.passed.saturating_add(wait),
            number: shared.next_sleeper,
        })
    }
}

/// One who sleeps; dropped, it sleeps no more.
struct Sleeper {
    timer: ManualTimer,
    until: Duration,
    number: u64,
}

impl Future for Sleeper {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut shared = self.timer.lock();
        if self.until <= shared.passed {
            return Poll::Ready(());
        }
        let asleep = (self.until, context.waker().clone());
        shared.sleepers.insert(self.number, asleep);
        let watchers = std::mem::take(&mut shared.watchers);
        drop(shared);
        watchers.into_iter().for_each(Waker::wake);
        Poll::Pending
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.timer.lock().sleepers.remove(&self.number);
    }
}
