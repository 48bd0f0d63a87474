//! Real threads, racing. `tests/shuttle.rs` runs small cases of the same under many schedules, drawn at random and by PCT.
#![cfg(test)]

mod support;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use limiter_core::{Cost, Plan};
use limiter_memory::MemoryStore;
use support::{is_full, key, plan, store};

const THREADS: usize = 8;

/// Runs `work` on all threads at once, with their numbers.
fn race(work: impl Fn(usize) + Sync) {
    let (work, start) = (&work, &std::sync::Barrier::new(THREADS));
    std::thread::scope(|scope| {
        for nth in 0..THREADS {
            scope.spawn(move || {
                start.wait();
                work(nth);
            });
        }
    });
}

fn admitted(store: &MemoryStore, who: usize, plans: &[Plan]) -> u32 {
    let answer = store.try_acquire_sync(&key(who), plans, Cost::ONE);
    u32::from(answer.unwrap().admitted)
}

#[test]
fn one_hot_key_admits_exactly_its_capacity() {
    let (store, _clock) = store(100);
    let (plans, total) = ([plan("gold", "1/min burst 10000")], AtomicU32::new(0));
    race(|_| {
        for _ in 0..5_000 {
            total.fetch_add(admitted(&store, 0, &plans), Relaxed);
        }
    });
    assert_eq!(total.into_inner(), 10_000);
}

#[test]
fn fresh_keys_admit_exactly_their_capacity() {
    const KEYS: usize = 20_000;
    let (store, _clock) = store(KEYS);
    let plans = [plan("gold", "1/min burst 3"), plan("daily", "fixed 5/d")];
    let totals: Vec<_> = (0..KEYS).map(|_| AtomicU32::new(0)).collect();
    race(|_| {
        for (who, total) in totals.iter().enumerate() {
            let plans = if who % 2 == 0 {
                &plans[..1]
            } else {
                &plans[..]
            };
            total.fetch_add(admitted(&store, who, plans), Relaxed);
        }
    });
    assert!(totals.iter().all(|total| total.load(Relaxed) == 3));
    assert_eq!(store.stats().tracked_keys, KEYS);
}

/// While time runs and idle keys are swept, rebuilt and reclaimed all around, long-lived keys lose nothing.
#[test]
fn sweeps_take_nothing_from_live_keys() {
    const LIVE: usize = 500;
    let (store, clock) = store(3_000);
    let (long, short) = ([plan("long", "1/d burst 4")], [plan("short", "100/s")]);
    let totals: Vec<_> = (0..LIVE).map(|_| AtomicU32::new(0)).collect();
    race(|nth| {
        let mut random = fastrand::Rng::with_seed(nth as u64);
        for round in 0..30_000_usize {
            let who = random.usize(..LIVE);
            let passing = key(format!("passing {nth} {round}"));
            let answer = store.try_acquire_sync(&passing, &short, Cost::ONE);
            assert!(is_full(&answer) || answer.unwrap().admitted);
            if let Ok(verdict) = store.try_acquire_sync(&key(who), &long, Cost::ONE) {
                totals[who].fetch_add(u32::from(verdict.admitted), Relaxed);
            }
            clock.advance(Duration::from_micros(
                20 + 980 * u64::from(round % 500 == 0),
            ));
        }
    });
    assert!(totals.iter().all(|total| total.load(Relaxed) <= 4));
    assert!(totals.iter().map(|total| total.load(Relaxed)).sum::<u32>() > 3 * 500);
    assert!(store.stats().tracked_keys <= 3_000);
    clock.advance(Duration::from_secs(5 * 86_400));
    store.sweep();
    assert_eq!(store.stats().tracked_keys, 0);
}
