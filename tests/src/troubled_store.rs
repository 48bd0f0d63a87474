//! [`TroubledStore`]: a store that fails on command.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use limiter_core::{Charge, Cost, Key, Plan, RateLimiterRepository, Refund, StoreError, Verdict};
use limiter_memory::MemoryStore;
use limiter_testkit::ManualClock;

/// What is the matter with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    None,
    /// It cannot be reached: no call runs.
    Down,
    /// The call runs, and its answer is lost.
    AnswerLost,
    /// The call neither runs nor answers in time.
    CallLost,
}

/// A store in memory that fails on command, and can lose its state.
pub struct TroubledStore {
    clock: ManualClock,
    now: Mutex<(Arc<MemoryStore>, Trouble)>,
    calls: AtomicU32,
}

impl TroubledStore {
    /// Makes an empty store on `clock` that works.
    pub fn on(clock: &ManualClock) -> Self {
        Self {
            clock: clock.clone(),
            now: Mutex::new((memory_on(clock), Trouble::None)),
            calls: AtomicU32::new(0),
        }
    }

    /// Makes `trouble` what happens to the next calls.
    pub fn suffer(&self, trouble: Trouble) {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).1 = trouble;
    }

    /// Loses all state, as a server does that restarts or fails over before it replicated.
    pub fn lose_state(&self) {
        let fresh = memory_on(&self.clock);
        self.now.lock().unwrap_or_else(PoisonError::into_inner).0 = fresh;
    }

    /// Returns how many calls came, whatever became of them.
    pub fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }

    fn called(&self) -> (Arc<MemoryStore>, Trouble) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.now
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Lets `answer` happen, or not, and be heard of, or not.
fn answer<T>(
    trouble: Trouble,
    call: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    match trouble {
        Trouble::None => call(),
        Trouble::Down => Err(StoreError::unavailable(
            Charge::Impossible,
            "connection refused",
        )),
        Trouble::AnswerLost => {
            call()?;
            Err(StoreError::unavailable(Charge::Possible, "timed out"))
        }
        Trouble::CallLost => Err(StoreError::unavailable(Charge::Possible, "timed out")),
    }
}

#[async_trait]
impl RateLimiterRepository for TroubledStore {
    async fn try_acquire(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        let (store, trouble) = self.called();
        answer(trouble, || store.try_acquire_sync(key, plans, cost))
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        let (store, trouble) = self.called();
        answer(trouble, || store.peek_sync(key, plans, cost))
    }

    async fn refund(
        &self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
    ) -> Result<Verdict, StoreError> {
        let (store, trouble) = self.called();
        answer(trouble, || store.refund_sync(key, plans, refund))
    }

    async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        let (store, trouble) = self.called();
        answer(trouble, || store.reset_sync(key, plans))
    }
}

fn memory_on(clock: &ManualClock) -> Arc<MemoryStore> {
    let store = MemoryStore::builder()
        .clock(Arc::new(clock.clone()))
        .build();
    Arc::new(store.unwrap_or_default())
}
