//! No call stops the world: one that grows or shrinks the store does so to a small part of it.
#![cfg(test)]

mod support;

use std::time::Duration;

use limiter_core::{Cost, Plan};
use limiter_memory::MemoryStore;
use support::{key, plan, store};

const KEYS: usize = 300_000;
/// What one call may add to the tables or take away, however many keys there are: one table, which is meant for 4096 keys, with its
/// gaps. A table that grows adds a fifth to itself, and so has six times that at most.
const MOST_SLOTS: usize = 8_192;

/// Makes a call; returns how many slots more or fewer there are after it.
fn slots_changed_by_a_call(store: &MemoryStore, name: usize, plans: &[Plan]) -> usize {
    let before = store.stats().slots;
    let said = store.try_acquire_sync(&key(name), plans, Cost::ONE);
    assert!(said.is_ok(), "{said:?}");
    before.abs_diff(store.stats().slots)
}

#[test]
fn a_call_grows_or_shrinks_a_small_part_of_a_large_store() {
    let (store, clock) = store(KEYS);
    let plans = [plan("gold", "10/s")];
    let mut most = 0;
    for name in 0..KEYS {
        most = most.max(slots_changed_by_a_call(&store, name, &plans));
    }
    let full = store.stats();
    assert_eq!(full.tracked_keys, KEYS);
    assert!(full.slots > 40 * MOST_SLOTS, "{} slots", full.slots);
    assert!(most <= MOST_SLOTS, "{most} slots at once while it grew");
    // All go idle; the calls of one key let their slots go.
    clock.advance(Duration::from_secs(60));
    most = 0;
    for _ in 0..KEYS * 5 {
        most = most.max(slots_changed_by_a_call(&store, 0, &plans));
    }
    let (idle, left) = (store.stats().tracked_keys, store.stats().slots);
    assert!(
        idle < KEYS / 100 && left < full.slots / 10,
        "{left} slots of {idle} keys are left"
    );
    assert!(most <= MOST_SLOTS, "{most} slots at once while it shrank");
}
