//! The in-process store of attempts obeys every law.
#![cfg(test)]

use std::sync::Arc;

use limiter_core::{AbusePolicy, AbuseRepository, Key};
use limiter_memory::MemoryAbuseStore;
use limiter_testkit::ManualClock;
use limiter_testkit::abuse::AbuseStoreUnderTest;

limiter_testkit::abuse_laws!(Subject::new(), cases = 512);

struct Subject {
    store: Arc<MemoryAbuseStore>,
    clock: ManualClock,
}

impl Subject {
    fn new() -> Self {
        let clock = ManualClock::new();
        let builder = MemoryAbuseStore::builder().clock(Arc::new(clock.clone()));
        let store = Arc::new(builder.build_abuse_store().unwrap());
        Self { store, clock }
    }
}

impl AbuseStoreUnderTest for Subject {
    fn store(&self) -> Arc<dyn AbuseRepository> {
        self.store.clone()
    }

    fn clock(&self) -> ManualClock {
        self.clock.clone()
    }

    async fn tracked_keys(&self) -> usize {
        self.store.stats().tracked_keys
    }

    async fn forget_idle(&self) {
        self.store.sweep();
    }

    async fn bytes_of(&self, key: &Key, policy: &AbusePolicy) -> Option<usize> {
        Some(self.store.bytes_of(key, policy))
    }

    async fn immortal_keys(&self) -> usize {
        0
    }
}
