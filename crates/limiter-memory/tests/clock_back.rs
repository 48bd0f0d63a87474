//! A clock that steps back counts as standing still.
#![cfg(test)]

mod support;

use std::time::Duration;

use limiter_core::Cost;
use support::{acquire, drain, key, plan, store};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_step_back_grants_nothing() {
    let (store, clock) = store(100);
    for limit in ["1/s burst 5", "fixed 5/min", "sliding 5/min"] {
        let plans = [plan("gold", limit)];
        assert_eq!(drain(&store, limit, &plans, 9), 5);
        clock.step_back(10 * SECOND);
        assert_eq!(drain(&store, limit, &plans, 9), 0, "{limit}");
        clock.advance(10 * SECOND);
        assert_eq!(drain(&store, limit, &plans, 9), 0, "{limit}");
    }
}

#[test]
fn a_step_back_within_the_grace_meets_the_state_that_was_there() {
    let (store, clock) = store(100);
    let plans = [plan("gold", "1/s burst 5")];
    drain(&store, "user", &plans, 5);
    clock.advance(4 * SECOND);
    let before = store.peek_sync(&key("user"), &plans, Cost::ONE).unwrap();
    clock.advance(2 * SECOND - Duration::from_micros(1));
    store.sweep();
    clock.step_back(2 * SECOND - Duration::from_micros(1));
    assert_eq!(
        store.peek_sync(&key("user"), &plans, Cost::ONE).unwrap(),
        before
    );
}

/// A swept key has no state that could remember its time: the shard does. Only what came by the latest expiry swept
/// counts as refilled.
#[test]
fn a_long_step_back_over_a_sweep_grants_nothing_twice() {
    let (store, clock) = store(100);
    let plans = [plan("gold", "1/s burst 5")];
    assert_eq!(drain(&store, "user", &plans, 9), 5);
    clock.advance(6 * SECOND);
    store.sweep();
    assert_eq!(store.stats().tracked_keys, 0);
    clock.step_back(6 * SECOND);
    assert_eq!(
        drain(&store, "user", &plans, 9),
        5,
        "5 refilled by the time of the sweep"
    );
    clock.advance(5 * SECOND);
    assert_eq!(
        drain(&store, "user", &plans, 9),
        0,
        "and are not refilled again"
    );
    clock.advance(SECOND);
    assert_eq!(drain(&store, "user", &plans, 9), 1);
}

#[test]
fn a_reset_forgets_what_had_expired_too() {
    let (store, clock) = store(100);
    let plans = [plan("gold", "1/s burst 5")];
    drain(&store, "user", &plans, 5);
    clock.advance(5 * SECOND);
    store.reset_sync(&key("user"), &plans).unwrap();
    assert_eq!(store.stats().tracked_keys, 0);
    clock.step_back(SECOND);
    assert!(acquire(&store, "user", &plans).plans[0].remaining == 4);
}
