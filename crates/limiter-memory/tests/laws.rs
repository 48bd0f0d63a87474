//! The laws that every store obeys.
#![cfg(test)]

use std::sync::Arc;

use async_trait::async_trait;
use limiter_core::{Cost, Key, Plan, RateLimiterRepository, Refund, StoreError, Verdict};
use limiter_memory::MemoryStore;
use limiter_testkit::{ManualClock, ManualRandom, StoreUnderTest};

struct Subject {
    store: Arc<MemoryStore>,
    port: Arc<dyn RateLimiterRepository>,
    clock: ManualClock,
    random: ManualRandom,
}

impl Subject {
    fn new(max_keys: usize) -> Self {
        let (clock, random) = (ManualClock::new(), ManualRandom::new());
        let store = MemoryStore::builder()
            .max_keys(max_keys)
            .clock(Arc::new(clock.clone()))
            .random(Arc::new(random.clone()))
            .build();
        let store = Arc::new(store.unwrap());
        Self {
            port: store.clone(),
            store,
            clock,
            random,
        }
    }

    fn asked_at_once(self) -> Self {
        Self {
            port: Arc::new(AtOnce(self.store.clone())),
            ..self
        }
    }
}

/// Spends as those do who ask the store without a future.
struct AtOnce(Arc<MemoryStore>);

#[async_trait]
impl RateLimiterRepository for AtOnce {
    async fn try_acquire(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        let in_process = self.0.in_process().unwrap();
        in_process.try_acquire_at_once(key, plans, cost)
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        self.0.peek(key, plans, cost).await
    }

    async fn refund(
        &self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
    ) -> Result<Verdict, StoreError> {
        self.0.refund(key, plans, refund).await
    }

    async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        self.0.reset(key, plans).await
    }
}

impl StoreUnderTest for Subject {
    fn store(&self) -> Arc<dyn RateLimiterRepository> {
        self.port.clone()
    }

    fn clock(&self) -> ManualClock {
        self.clock.clone()
    }

    fn random(&self) -> ManualRandom {
        self.random.clone()
    }

    async fn tracked_keys(&self) -> usize {
        self.store.stats().tracked_keys
    }

    async fn forget_idle(&self) {
        self.store.sweep();
    }
}

limiter_testkit::store_laws!(Subject::new(100_000));

mod at_once {
    use super::*;

    limiter_testkit::store_laws!(Subject::new(100_000).asked_at_once());
}
