//! Several plans under one key, and plans that change.
#![cfg(test)]

mod support;

use std::time::Duration;

use limiter_core::{Cost, InvalidRequest, RateLimiterRepository, Refund, StoreError, Verdict};
use support::{acquire, cost, drain, key, plan, store};

#[test]
fn distinct_keys_share_nothing() {
    let (store, _clock) = store(100_000);
    let plans = [plan("gold", "1/min burst 3")];
    for nth in 0..50_000 {
        assert_eq!(drain(&store, &nth.to_string(), &plans, 2), 2);
    }
    for nth in 0..50_000 {
        assert_eq!(drain(&store, &nth.to_string(), &plans, 2), 1);
    }
}

#[tokio::test]
async fn a_call_that_is_never_polled_charges_nothing() {
    let (store, _clock) = store(100);
    let (user, plans) = (key("user"), [plan("gold", "1/min")]);
    drop(store.try_acquire(&user, &plans, Cost::ONE));
    let polled = store.try_acquire(&user, &plans, Cost::ONE).await.unwrap();
    assert!(polled.admitted);
    assert!(!acquire(&store, "user", &plans).admitted);
}

#[tokio::test]
async fn calls_at_once_and_calls_that_are_awaited_spend_the_same_units() {
    let (store, _clock) = store(100);
    let (user, plans) = (key("user"), [plan("gold", "1/min burst 4")]);
    let in_process = store.in_process().unwrap();
    for remaining in [3, 1] {
        let at_once = in_process.try_acquire_at_once(&user, &plans, Cost::ONE);
        assert_eq!(at_once.unwrap().plans[0].remaining, remaining);
        let awaited = store.try_acquire(&user, &plans, Cost::ONE).await.unwrap();
        assert_eq!(awaited.plans[0].remaining, remaining - 1);
    }
    let denied = in_process.try_acquire_at_once(&user, &plans, Cost::ONE);
    assert!(!denied.unwrap().admitted);
}

#[test]
fn a_chain_is_charged_whole_or_not_at_all() {
    let (store, _clock) = store(100);
    let plans = [
        plan("wide", "10/min"),
        plan("narrow", "fixed 3/min"),
        plan("log", "sliding 7/min"),
    ];
    let charge = store
        .try_acquire_sync(&key("user"), &plans, cost(2))
        .unwrap();
    assert_eq!(drain(&store, "user", &plans, 20), 1);
    let peeked = store.peek_sync(&key("user"), &plans, Cost::ONE).unwrap();
    assert_eq!(free(&peeked), [7, 0, 4]);
    let refunded = store
        .refund_sync(&key("user"), &plans, &Refund::of(&charge, cost(2)))
        .unwrap();
    assert_eq!(free(&refunded), [9, 2, 6]);
    store.reset_sync(&key("user"), &plans[1..]).unwrap();
    let peeked = store.peek_sync(&key("user"), &plans, Cost::ONE).unwrap();
    assert_eq!(free(&peeked), [9, 3, 7]);
}

fn free(verdict: &Verdict) -> Vec<u32> {
    verdict.plans.iter().map(|plan| plan.remaining).collect()
}

#[test]
fn plans_used_one_by_one_and_together_count_alike() {
    let (store, clock) = store(100);
    let plans = [plan("a", "5/min"), plan("b", "fixed 5/min")];
    assert_eq!(drain(&store, "user", &plans[..1], 2), 2);
    assert_eq!(drain(&store, "user", &plans[1..], 1), 1);
    assert_eq!(drain(&store, "user", &plans, 9), 3);
    assert_eq!(drain(&store, "user", &plans[..1], 9), 0);
    assert_eq!(drain(&store, "user", &plans[1..], 9), 1);
    clock.advance(Duration::from_secs(3600));
    assert_eq!(drain(&store, "user", &plans[..1], 9), 5);
    assert_eq!(drain(&store, "user", &plans[1..], 9), 5);
    assert_eq!(store.stats().tracked_keys, 1);
}

#[test]
fn a_changed_rate_keeps_what_was_spent() {
    let (store, clock) = store(100);
    assert_eq!(drain(&store, "user", &[plan("gold", "10/min")], 6), 6);
    let slower = [plan("gold", "5/h burst 10")];
    assert_eq!(drain(&store, "user", &slower, 20), 4);
    clock.advance(Duration::from_secs(12 * 60));
    assert_eq!(drain(&store, "user", &slower, 20), 1);
    let smaller = [plan("gold", "5/h burst 1")];
    assert_eq!(drain(&store, "user", &smaller, 20), 0);
}

#[test]
fn a_changed_algorithm_starts_afresh_and_says_so() {
    let (store, clock) = store(100);
    let limits = ["10/min", "fixed 10/min", "sliding 10/min", "10/min"];
    drain(
        &store,
        "user",
        &[plan("gold", "suppressing 10/min hard 20")],
        9,
    );
    for limit in limits {
        let plans = [plan("gold", limit)];
        let peeked = store.peek_sync(&key("user"), &plans, Cost::ONE).unwrap();
        assert!(peeked.plans[0].restarted && peeked.plans[0].remaining == 10);
        assert!(acquire(&store, "user", &plans).plans[0].restarted);
        assert!(!acquire(&store, "user", &plans).plans[0].restarted);
    }
    clock.advance(Duration::from_secs(3600));
    let outlived = [plan("gold", "fixed 10/min")];
    assert!(!acquire(&store, "user", &outlived).plans[0].restarted);
}

#[test]
fn a_bad_call_changes_nothing() {
    let (store, _clock) = store(100);
    let gold = plan("gold", "10/min");
    let too_much = store.try_acquire_sync(&key("user"), std::slice::from_ref(&gold), cost(11));
    assert!(matches!(
        too_much,
        Err(StoreError::Request(InvalidRequest::CostTooLarge { .. }))
    ));
    let twice = [gold.clone(), gold];
    assert!(store.peek_sync(&key("user"), &twice, Cost::ONE).is_err());
    let elsewhere = store
        .try_acquire_sync(&key("other"), &twice[..1], Cost::ONE)
        .unwrap();
    let charge = Refund::of(&elsewhere, Cost::ONE);
    assert!(store.refund_sync(&key("user"), &twice, &charge).is_err());
    store.reset_sync(&key("other"), &twice[..1]).unwrap();
    assert!(store.reset_sync(&key("user"), &[]).is_err());
    assert_eq!(store.stats().tracked_keys, 0);
}
