//! The laws that every store obeys.
#![cfg(test)]

use std::sync::Arc;

use limiter_core::RateLimiterRepository;
use limiter_memory::MemoryStore;
use limiter_testkit::{ManualClock, ManualRandom, StoreUnderTest};

struct Subject {
    store: Arc<MemoryStore>,
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
        Self {
            store: Arc::new(store.unwrap()),
            clock,
            random,
        }
    }
}

impl StoreUnderTest for Subject {
    fn store(&self) -> Arc<dyn RateLimiterRepository> {
        self.store.clone()
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
