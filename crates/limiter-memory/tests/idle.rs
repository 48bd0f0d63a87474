//! Idle keys go, and so does their memory.
#![cfg(test)]

mod support;

use std::time::Duration;

use limiter_core::Cost;
use support::{drain, key, plan, spend, store};

#[test]
fn calls_of_others_free_idle_keys_and_their_memory() {
    let (store, clock) = store(1_000_000);
    let plans = [plan("gold", "1/s burst 10")];
    for nth in 0..100_000 {
        spend(&store, &format!("idle {nth}"), &plans);
    }
    let busy = store.stats();
    assert_eq!(busy.tracked_keys, 100_000);
    clock.advance(Duration::from_secs(3));
    for _ in 0..500_000 {
        let _ = store.peek_sync(&key("other"), &plans, Cost::ONE).unwrap();
    }
    let idle = store.stats();
    assert_eq!((idle.tracked_keys, idle.slots), (0, 0));
}

#[test]
fn no_key_stays_behind_whatever_its_plans() {
    let (store, clock) = store(10_000);
    let plans = [
        plan("bucket", "10/s"),
        plan("fixed", "fixed 10/s"),
        plan("sliding", "sliding 10/s"),
        plan("suppressing", "suppressing 10/s hard 20"),
    ];
    for nth in 0..1000 {
        let who = nth.to_string();
        for plan in &plans {
            spend(&store, &who, std::slice::from_ref(plan));
        }
        spend(&store, &who, &plans);
    }
    assert_eq!(store.stats().tracked_keys, 1000);
    clock.advance(Duration::from_secs(2) - Duration::from_micros(1));
    store.sweep();
    assert_eq!(store.stats().tracked_keys, 1000, "the grace is a second");
    clock.advance(Duration::from_micros(1));
    store.sweep();
    assert_eq!((store.stats().tracked_keys, store.stats().slots), (0, 0));
}

#[test]
fn a_sweep_leaves_live_keys_alone() {
    let (store, clock) = store(100_000);
    let (short, long) = ([plan("short", "1/s")], [plan("long", "10/h")]);
    for nth in 0..20_000 {
        let plans = if nth % 10 == 0 { &long } else { &short };
        spend(&store, &nth.to_string(), plans);
    }
    let slots = store.stats().slots;
    clock.advance(Duration::from_secs(5));
    store.sweep();
    assert_eq!(store.stats().tracked_keys, 2_000);
    assert!(store.stats().slots < slots / 4);
    for nth in (0..20_000).step_by(10) {
        assert_eq!(drain(&store, &nth.to_string(), &long, 20), 9);
    }
}

/// Plans that come and go leave their names in a shard's list of origins: the list must be cleared of them.
#[test]
fn keys_stay_small_and_exact_while_plans_come_and_go() {
    let (store, clock) = store(1_000);
    for nth in 0..1_000 {
        let plans = [plan(&format!("plan{nth}"), "2/s")];
        assert_eq!(drain(&store, "user", &plans, 5), 2, "{nth}");
        assert_eq!(drain(&store, &format!("user {nth}"), &plans, 5), 2);
        clock.advance(Duration::from_millis(100));
        assert!(store.stats().tracked_keys <= 40);
    }
}
