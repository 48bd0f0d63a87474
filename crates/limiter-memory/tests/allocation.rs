//! What a decision allocates: nothing, once its key and plans are known.
#![cfg(test)]

mod support;

use std::time::Duration;

use limiter_core::{Cost, Plan};
use support::{key, plan, store};

fn allocations(plans: &[Plan]) -> u64 {
    let (store, clock) = store(1_000);
    let user = key("user");
    let call = || {
        clock.advance(Duration::from_millis(1));
        let _ = store.try_acquire_sync(&user, plans, Cost::ONE).unwrap();
        let _ = store.peek_sync(&user, plans, Cost::ONE).unwrap();
    };
    call();
    allocation_counter::measure(|| (0..1_000).for_each(|_| call())).count_total
}

#[test]
fn one_bucket_or_fixed_window_allocates_nothing() {
    assert_eq!(allocations(&[plan("gold", "10/s")]), 0);
    assert_eq!(allocations(&[plan("gold", "fixed 10/s")]), 0);
}

#[test]
fn a_chain_of_two_allocates_nothing() {
    assert_eq!(
        allocations(&[plan("gold", "10/s"), plan("daily", "fixed 1000/d")]),
        0
    );
}
