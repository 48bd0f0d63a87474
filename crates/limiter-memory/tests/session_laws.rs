//! The in-process store of sessions obeys every law.
#![cfg(test)]

use std::sync::Arc;

use limiter_core::Clock;
use limiter_memory::MemorySessionStore;
use limiter_sessions::{SessionPorts, TagKey};
use limiter_testkit::ManualClock;
use limiter_testkit::sessions::SessionStoreUnderTest;

limiter_testkit::session_laws!(Subject::new(), cases = 256);

/// About how many calls a law of racing callers makes; the environment variable `LIMITER_RACING_CALLS` may say otherwise.
const RACING_CALLS: u32 = 64_000;
/// A nonce is quickly taken: there is time for more.
const RACING_NONCES: u32 = 10_000;

struct Subject {
    store: Arc<MemorySessionStore>,
    clock: ManualClock,
}

impl Subject {
    fn new() -> Self {
        let clock = ManualClock::new();
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        // A secret that is always the same, so that estimates are.
        let tags = TagKey::new([7; 32]).unwrap();
        let builder = MemorySessionStore::builder().clock(shared).tag_key(tags);
        let store = Arc::new(builder.build().unwrap());
        Self { store, clock }
    }
}

fn asked_for() -> Option<u32> {
    let calls = std::env::var("LIMITER_RACING_CALLS").ok()?;
    calls.parse().ok()
}

impl SessionStoreUnderTest for Subject {
    fn store(&self) -> Arc<dyn SessionPorts> {
        self.store.clone()
    }

    fn clock(&self) -> ManualClock {
        self.clock.clone()
    }

    fn racing_calls(&self) -> u32 {
        asked_for().unwrap_or(RACING_CALLS)
    }

    fn racing_nonces(&self) -> u32 {
        asked_for().map_or(RACING_NONCES, |calls| calls / 16)
    }

    async fn kept(&self) -> usize {
        self.store.kept()
    }

    async fn forget_idle(&self) {
        self.store.sweep();
    }

    async fn immortal_keys(&self) -> usize {
        0
    }

    async fn key_names(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }
}
