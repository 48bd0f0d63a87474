//! The in-process store of attempts: its cap, its memory, its sweeps, its threads.
#![cfg(test)]

mod support;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use limiter_core::{AbusePolicy, StoreError, Tier, days, hours, minutes, seconds};
use limiter_memory::MemoryAbuseStore;
use limiter_testkit::ManualClock;
use support::key;

fn store(max_keys: usize) -> (MemoryAbuseStore, ManualClock) {
    let clock = ManualClock::new();
    let builder = MemoryAbuseStore::builder().max_keys(max_keys);
    let store = builder.clock(Arc::new(clock.clone())).build_abuse_store();
    (store.unwrap(), clock)
}

fn policy(threshold: u32, window: Duration) -> AbusePolicy {
    let tier = Tier::new("temp", threshold, window);
    AbusePolicy::builder("login").tier(tier).build().unwrap()
}

/// Goal: a key under attack takes bounded memory. Method: count what the allocator hands out while a key is hammered a
/// million times, under small and large thresholds.
#[test]
fn a_key_hammered_a_million_times_takes_bounded_memory() {
    for threshold in [1, 5, 1_000, 10_000] {
        let (store, clock) = store(1_000);
        let policy = policy(threshold, days(1));
        let attacker = key("attacker");
        let attack = || {
            clock.advance(Duration::from_micros(1));
            let _ = store.record_sync(&attacker, &policy).unwrap();
        };
        attack();
        let used = allocation_counter::measure(|| (0..1_000_000).for_each(|_| attack()));
        let (bytes, grown) = (store.bytes_of(&attacker, &policy), used.bytes_current);
        println!(
            "threshold {threshold}: {bytes} bytes for the key, {grown} since its first attempt"
        );
        assert!(bytes <= 16 * threshold as usize + 256, "{bytes} bytes");
        assert!(grown <= 8 * i64::from(threshold), "grown by {grown} bytes");
    }
}

#[test]
fn an_attempt_of_a_known_key_allocates_nothing() {
    let (store, clock) = store(10);
    let (attacker, policy) = (key("attacker"), policy(20, hours(1)));
    let attempt = || {
        clock.advance(Duration::from_millis(1));
        let _ = store.record_sync(&attacker, &policy).unwrap();
        let _ = store.status_sync(&attacker, &policy);
    };
    (0..40).for_each(|_| attempt());
    let used = allocation_counter::measure(|| (0..1_000).for_each(|_| attempt()));
    assert_eq!(used.count_total, 0);
}

#[test]
fn a_full_store_refuses_new_keys_and_keeps_the_blocks_of_old_ones() {
    let (store, clock) = store(2);
    let policy = policy(1, minutes(1));
    for who in ["a", "b"] {
        assert!(
            store
                .record_sync(&key(who), &policy)
                .unwrap()
                .block
                .is_some()
        );
    }
    let refused = store.record_sync(&key("c"), &policy);
    assert!(matches!(refused, Err(StoreError::Full { max_keys: 2 })));
    assert!(
        store
            .record_sync(&key("a"), &policy)
            .unwrap()
            .block
            .is_some()
    );
    assert_eq!(store.stats().refused_new_keys, 1);
    clock.advance(minutes(1));
    assert!(store.record_sync(&key("c"), &policy).is_ok());
    assert_eq!(store.stats().tracked_keys, 2);
}

#[test]
fn idle_keys_are_freed_by_the_calls_of_others() {
    let (store, clock) = store(100_000);
    let policy = policy(3, seconds(10));
    for nth in 0..20_000 {
        let _ = store.record_sync(&key(nth), &policy).unwrap();
    }
    assert_eq!(store.stats().tracked_keys, 20_000);
    clock.advance(seconds(12));
    for _ in 0..100_000 {
        let _ = store.status_sync(&key("other"), &policy);
    }
    assert_eq!(store.stats().tracked_keys, 0);
}

#[test]
fn threads_that_race_for_many_keys_get_exactly_the_threshold_each() {
    let (store, _clock) = store(1_000);
    let policy = policy(5, hours(1));
    let allowed: usize = thread::scope(|scope| {
        let racers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let attempts = (0..500).flat_map(|_| 0..20);
                    attempts
                        .filter(|who| {
                            let verdict = store.record_sync(&key(who), &policy).unwrap();
                            verdict.block.is_none()
                        })
                        .count()
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).sum()
    });
    assert_eq!(allowed, 20 * 4);
}

#[test]
fn a_store_for_no_key_is_refused() {
    assert!(
        MemoryAbuseStore::builder()
            .max_keys(0)
            .build_abuse_store()
            .is_err()
    );
}
