//! The cap on keys, and what happens at it.
#![cfg(test)]

mod support;

use std::time::Duration;

use limiter_core::{Cost, Refund, Source, StoreError, Timestamp};
use limiter_memory::{InvalidMaxKeys, MemoryStore};
use support::{cost, drain, is_full, key, plan, spend, store};

#[test]
fn a_store_for_no_keys_is_refused() {
    let refused = MemoryStore::builder().max_keys(0).build().unwrap_err();
    assert_eq!(refused, InvalidMaxKeys);
    assert!(refused.to_string().contains("at least 1"));
}

#[test]
fn new_keys_are_refused_and_counted_when_the_store_is_full() {
    let (store, _clock) = store(3);
    let plans = [plan("gold", "1/s burst 10")];
    for who in ["a", "b", "c"] {
        spend(&store, who, &plans);
    }
    let refused = store.try_acquire_sync(&key("d"), &plans, Cost::ONE);
    assert!(matches!(refused, Err(StoreError::Full { max_keys: 3 })));
    assert!(is_full(&store.try_acquire_sync(
        &key("e"),
        &plans,
        Cost::ONE
    )));
    let stats = store.stats();
    assert_eq!((stats.tracked_keys, stats.refused_new_keys), (3, 2));
}

#[test]
fn existing_keys_stay_exact_when_the_store_is_full() {
    let (store, clock) = store(2);
    let plans = [plan("gold", "1/s burst 10")];
    assert_eq!(drain(&store, "a", &plans, 4), 4);
    assert_eq!(drain(&store, "b", &plans, 20), 10);
    for nth in 0..1000 {
        assert!(is_full(&store.try_acquire_sync(
            &key(nth),
            &plans,
            Cost::ONE
        )));
    }
    assert_eq!(drain(&store, "a", &plans, 20), 6);
    assert_eq!(drain(&store, "b", &plans, 20), 0);
    clock.advance(Duration::from_secs(3));
    assert_eq!(drain(&store, "b", &plans, 20), 3);
}

#[test]
fn a_new_key_takes_the_place_of_one_that_has_expired() {
    let (store, clock) = store(2);
    let plans = [plan("gold", "1/s burst 10")];
    assert_eq!(drain(&store, "short", &plans, 2), 2);
    assert_eq!(drain(&store, "long", &plans, 9), 9);
    clock.advance(Duration::from_micros(1_999_999));
    assert!(is_full(&store.try_acquire_sync(
        &key("new"),
        &plans,
        Cost::ONE
    )));
    clock.advance(Duration::from_micros(1));
    spend(&store, "new", &plans);
    assert_eq!(store.stats().tracked_keys, 2);
    assert_eq!(drain(&store, "long", &plans, 20), 3);
    assert!(is_full(&store.try_acquire_sync(
        &key("short"),
        &plans,
        Cost::ONE
    )));
}

#[test]
fn calls_that_leave_no_state_need_no_room() {
    let (store, _clock) = store(1);
    let plans = [plan("gold", "1/s burst 10")];
    spend(&store, "a", &plans);
    assert!(
        store
            .peek_sync(&key("b"), &plans, Cost::ONE)
            .unwrap()
            .admitted
    );
    let elsewhere = Refund {
        source: Source::Store,
        charged_at: [Some(Timestamp::EPOCH)].into_iter().collect(),
        charged: Cost::ONE,
        given_back: 0,
        units: Cost::ONE,
    };
    assert!(store.refund_sync(&key("b"), &plans, &elsewhere).is_ok());
    assert!(store.reset_sync(&key("b"), &plans).is_ok());
    assert_eq!(store.stats().tracked_keys, 1);
    assert_eq!(store.stats().refused_new_keys, 0);
}

#[test]
fn a_key_that_is_reset_or_refunded_whole_makes_room() {
    let (store, _clock) = store(1);
    let plans = [plan("gold", "1/s burst 10")];
    spend(&store, "a", &plans);
    store.reset_sync(&key("a"), &plans).unwrap();
    assert_eq!(store.stats().tracked_keys, 0);
    let charged = store.try_acquire_sync(&key("b"), &plans, cost(5)).unwrap();
    let charge = Refund::of(&charged, cost(5));
    let _ = store.refund_sync(&key("b"), &plans, &charge).unwrap();
    assert_eq!(store.stats().tracked_keys, 0);
    spend(&store, "c", &plans);
}

/// Keys pass through a full store at the pace at which others expire, and the count stays within the cap throughout.
#[test]
fn many_keys_pass_through_a_small_store() {
    let (store, clock) = store(5_000);
    let plans = [plan("gold", "1/s burst 10")];
    let mut refused = 0;
    for nth in 0..100_000 {
        refused += u32::from(is_full(&store.try_acquire_sync(
            &key(nth),
            &plans,
            Cost::ONE,
        )));
        assert!(store.stats().tracked_keys <= 5_000);
        clock.advance(Duration::from_micros(250));
    }
    assert_eq!(
        refused, 0,
        "4,000 keys are live at any time, and there is room for 5,000"
    );
}
