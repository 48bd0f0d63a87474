//! [`ModelStore`]: the model behind the store port.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use limiter_core::{
    Clock, Cost, Key, Plan, RandomSource, RateLimiterRepository, Refund, StoreError, Verdict,
    check_refund, check_request, math::Draw,
};

use crate::{ManualClock, ManualRandom, Model, StoreUnderTest};

/// A store that is right and slow: the [`Model`] behind a lock. Obeys every law, and never forgets by itself.
///
/// Takes the place of a real store in tests of what stands above one. Clones share their state.
///
/// # Examples
/// ```
/// use limiter_core::{Cost, Key, Plan, RateLimiterRepository};
/// use limiter_testkit::{ModelStore, block_on};
///
/// let store = ModelStore::new();
/// let (key, gold) = (Key::new("ada")?, [Plan::new("gold", "10/s")?]);
/// let verdict = block_on(store.try_acquire(&key, &gold, Cost::ONE))?;
/// assert_eq!(verdict.plans[0].remaining, 9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ModelStore {
    model: Arc<Mutex<Model>>,
    clock: ManualClock,
    random: ManualRandom,
}

impl ModelStore {
    /// Makes an empty store with a clock and a random source of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an empty store on `clock`.
    #[must_use]
    pub fn with_clock(clock: ManualClock) -> Self {
        Self {
            clock,
            ..Self::default()
        }
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl RateLimiterRepository for ModelStore {
    async fn try_acquire(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        check_request(plans, Some(cost))?;
        let draw = Draw::from_random(self.random.next_u64());
        let mut model = self.model();
        Ok(model.try_acquire(key, plans, cost, self.clock.now(), draw))
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        check_request(plans, Some(cost))?;
        Ok(self.model().peek(key, plans, cost, self.clock.now()))
    }

    async fn refund(
        &self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
    ) -> Result<Verdict, StoreError> {
        check_refund(plans, refund)?;
        Ok(self.model().refund(key, plans, refund, self.clock.now()))
    }

    async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        check_request(plans, None)?;
        self.model().reset(key, plans);
        Ok(())
    }
}

impl StoreUnderTest for ModelStore {
    fn store(&self) -> Arc<dyn RateLimiterRepository> {
        Arc::new(self.clone())
    }

    fn clock(&self) -> ManualClock {
        self.clock.clone()
    }

    fn random(&self) -> ManualRandom {
        self.random.clone()
    }

    async fn tracked_keys(&self) -> usize {
        self.model().tracked_keys()
    }

    async fn forget_idle(&self) {
        self.model().forget_outlived(self.clock.now());
    }
}
