//! Interleavings of the memory store, explored: `RUSTFLAGS="--cfg shuttle" cargo test -p limiter-interleavings --release`.
#![cfg(all(test, shuttle))]

use std::sync::Arc;
use std::time::Duration;

use limiter_core::{AbusePolicy, Cost, Key, Plan, StoreError, Tier};
use limiter_interleavings::HandTurnedClock;
use limiter_memory::{MemoryAbuseStore, MemoryStore};
use shuttle::thread;

fn key(name: impl std::fmt::Display) -> Key {
    Key::new(name.to_string()).unwrap()
}

fn plan(name: &str, limit: &str) -> Plan {
    Plan::new(name, limit).unwrap()
}

/// Makes a store for `max_keys` keys on a clock that is turned by hand.
fn store(max_keys: usize) -> (MemoryStore, HandTurnedClock) {
    let clock = HandTurnedClock::default();
    let builder = MemoryStore::builder().max_keys(max_keys);
    let store = builder.clock(Arc::new(clock.clone())).build().unwrap();
    (store, clock)
}

/// Runs `case` under random schedules, and under ones that a bug of few preemptions cannot hide from.
fn explore(case: fn()) {
    shuttle::check_random(case, 2_000);
    shuttle::check_pct(case, 2_000, 3);
}

/// Spends one unit `times` times; counts how often it was admitted.
fn spend(store: &MemoryStore, who: &str, plans: &[Plan], times: usize) -> usize {
    let admitted = |_: &usize| {
        let answer = store.try_acquire_sync(&key(who), plans, Cost::ONE);
        answer.is_ok_and(|verdict| verdict.admitted)
    };
    (0..times).filter(admitted).count()
}

/// Runs `work` on three threads and adds up what they return.
fn race(work: impl Fn(usize) -> usize + Send + Sync + 'static) -> usize {
    let work = Arc::new(work);
    let threads: Vec<_> = (0..3)
        .map(|nth| {
            let work = Arc::clone(&work);
            thread::spawn(move || work(nth))
        })
        .collect();
    threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .sum()
}

#[test]
fn racing_threads_never_overspend_a_fresh_key() {
    explore(|| {
        let (store, _clock) = store(10);
        let plans = [plan("gold", "1/min burst 4")];
        assert_eq!(race(move |_| spend(&store, "user", &plans, 2)), 4);
    });
}

#[test]
fn racing_threads_never_overspend_a_chain() {
    explore(|| {
        let (store, _clock) = store(10);
        let store = Arc::new(store);
        let plans = [plan("wide", "1/min burst 5"), plan("narrow", "fixed 3/min")];
        let (racing, chain) = (Arc::clone(&store), plans.clone());
        let admitted = race(move |nth| match nth {
            0 => spend(&racing, "user", &chain[..1], 1) * 10,
            _ => spend(&racing, "user", &chain, 2),
        });
        assert_eq!(admitted, 13);
        let left = store.peek_sync(&key("user"), &plans, Cost::ONE).unwrap();
        assert_eq!([left.plans[0].remaining, left.plans[1].remaining], [1, 0]);
    });
}

#[test]
fn racing_new_keys_never_exceed_the_cap() {
    explore(|| {
        let (store, _clock) = store(2);
        let plans = [plan("gold", "1/min burst 2")];
        let racing = Arc::new(store);
        let store = Arc::clone(&racing);
        race(move |nth| {
            let answer = racing.try_acquire_sync(&key(nth), &plans, Cost::ONE);
            assert!(racing.stats().tracked_keys <= 2);
            usize::from(matches!(answer, Err(StoreError::Full { .. })))
        });
        assert_eq!(store.stats().tracked_keys, 2);
        assert_eq!(store.stats().refused_new_keys, 1);
    });
}

/// One thread spends of a long-lived key, one lets keys come and expire so that others reclaim them, one sweeps and lets
/// time run. Two shards, so that calls visit a shard that is not their own.
#[test]
fn sweeps_and_reclaims_take_nothing_from_a_live_key() {
    explore(|| {
        let (store, clock) = store(8192);
        let store = Arc::new(store);
        let (long, short) = ([plan("long", "1/d burst 3")], [plan("short", "1000/s")]);
        let racing = Arc::clone(&store);
        let admitted = race(move |nth| match nth {
            0 => spend(&racing, "live", &long, 4),
            1 => {
                (0..8).for_each(|nth| assert!(spend(&racing, &format!("{nth}"), &short, 1) == 1));
                spend(&racing, "live", &long, 1)
            }
            _ => {
                for _ in 0..3 {
                    clock.advance(Duration::from_secs(2));
                    racing.sweep();
                }
                0
            }
        });
        assert_eq!(admitted, 3);
        assert!((1..=9).contains(&store.stats().tracked_keys));
    });
}

#[test]
fn racing_attempts_are_allowed_exactly_up_to_the_threshold() {
    explore(|| {
        let store = MemoryAbuseStore::builder().max_keys(10);
        let store = store.clock(Arc::new(HandTurnedClock::default()));
        let store = store.build_abuse_store().unwrap();
        let tier = Tier::new("temp", 4, Duration::from_secs(60));
        let policy = AbusePolicy::builder("login").tier(tier).build().unwrap();
        let allowed = race(move |_| {
            let allowed = |_: &usize| {
                let verdict = store.record_sync(&key("user"), &policy).unwrap();
                verdict.block.is_none()
            };
            (0..3).filter(allowed).count()
        });
        assert_eq!(allowed, 3);
    });
}
