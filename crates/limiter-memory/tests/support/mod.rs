//! What the tests of this crate share.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part"
)]

use std::sync::Arc;

use limiter_core::{Cost, Key, Plan, StoreError, Verdict};
use limiter_memory::MemoryStore;
use limiter_testkit::ManualClock;

pub fn key(name: impl std::fmt::Display) -> Key {
    Key::new(name.to_string()).unwrap()
}

pub fn plan(name: &str, limit: &str) -> Plan {
    Plan::new(name, limit).unwrap()
}

pub fn cost(units: u32) -> Cost {
    Cost::new(units).unwrap()
}

/// Makes a store for `max_keys` keys on a clock that is turned by hand.
pub fn store(max_keys: usize) -> (MemoryStore, ManualClock) {
    let clock = ManualClock::new();
    let builder = MemoryStore::builder().max_keys(max_keys);
    let store = builder.clock(Arc::new(clock.clone())).build().unwrap();
    (store, clock)
}

pub fn acquire(store: &MemoryStore, who: &str, plans: &[Plan]) -> Verdict {
    store.try_acquire_sync(&key(who), plans, Cost::ONE).unwrap()
}

/// Spends one unit, which there must be.
pub fn spend(store: &MemoryStore, who: &str, plans: &[Plan]) {
    assert!(acquire(store, who, plans).admitted);
}

/// Spends until denied, at most `most` times; returns how often it was admitted.
pub fn drain(store: &MemoryStore, who: &str, plans: &[Plan], most: u32) -> u32 {
    let admitted = |_: &u32| acquire(store, who, plans).admitted;
    u32::try_from((0..most).take_while(admitted).count()).unwrap()
}

pub fn is_full(answer: &Result<Verdict, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Full { .. }))
}
