//! What is spent of plenty, without a word on how the plans stand, is what would have been spent.
#![cfg(test)]

mod support;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use limiter_core::{Cost, InProcessRepository, Key, Plan};
use limiter_memory::MemoryStore;
use proptest::prelude::*;
use support::{cost, key, plan, store};

/// Spends as those do who need to know no more than whether they may go on; says how it was asked for, too.
fn spend(store: &MemoryStore, key: &Key, plan: &Plan, cost: Cost) -> (bool, bool) {
    if store.spend_if_plenty(key, plan, cost) {
        return (true, true);
    }
    let verdict = store.try_acquire_sync(key, std::slice::from_ref(plan), cost);
    (verdict.unwrap().admitted, false)
}

#[test]
fn one_token_stays_where_there_is_plenty() {
    let (store, _clock) = store(100);
    let (user, gold) = (key("user"), plan("gold", "1/min burst 4"));
    // A key that the store does not know yet is decided in full, and so is the last token.
    let answers: Vec<_> = (0..5)
        .map(|_| spend(&store, &user, &gold, Cost::ONE))
        .collect();
    let (plenty, decided, denied) = ((true, true), (true, false), (false, false));
    assert_eq!(answers, [decided, plenty, plenty, decided, denied]);
}

#[test]
fn what_the_quick_way_does_not_know_is_decided_in_full() {
    let (store, _clock) = store(100);
    for limit in ["fixed 9/min", "sliding 9/min", "suppressing 9/min hard 12"] {
        let (user, other) = (key(limit), plan("other", limit));
        assert_eq!(spend(&store, &user, &other, Cost::ONE), (true, false));
        assert_eq!(spend(&store, &user, &other, Cost::ONE), (true, false));
    }
    let (user, gold) = (key("user"), plan("gold", "1/min burst 4"));
    assert_eq!(spend(&store, &user, &gold, Cost::ONE), (true, false));
    assert!(
        !store.spend_if_plenty(&user, &gold, cost(u32::MAX)),
        "no such cost"
    );
    assert!(
        !store.spend_if_plenty(&user, &plan("gold", "2/min burst 9"), Cost::ONE),
        "changed"
    );
    assert!(
        !store.spend_if_plenty(&user, &plan("bronze", "1/min burst 4"), Cost::ONE),
        "another"
    );
    let looked = store.peek_sync(&user, &[gold], Cost::ONE).unwrap();
    assert_eq!(looked.plans[0].remaining, 3);
}

#[test]
fn racing_callers_spend_exactly_the_capacity() {
    const CAPACITY: u32 = 20_000;
    let (store, _clock) = store(100);
    let (user, gold) = (key("user"), plan("gold", "1/24h burst 20000"));
    assert_eq!(spend(&store, &user, &gold, Cost::ONE), (true, false));
    let (admitted, of_plenty) = (AtomicU32::new(1), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..CAPACITY / 2 {
                    let (is_admitted, quick) = spend(&store, &user, &gold, Cost::ONE);
                    admitted.fetch_add(u32::from(is_admitted), Ordering::Relaxed);
                    of_plenty.fetch_add(u32::from(quick), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), CAPACITY);
    // All but the first, when the store did not know the key, and the last.
    assert_eq!(of_plenty.into_inner(), CAPACITY - 2);
}

proptest! {
    #[test]
    fn prop_what_is_spent_of_plenty_is_what_is_spent(
        shadow in any::<bool>(),
        calls in proptest::collection::vec((0..2_usize, 0..2_usize, -1_500..3_000_i64, 1..5_u32), 1..60),
    ) {
        let ((in_full, its_clock), (quick, clock)) = (store(100), store(100));
        // The plan changes its capacity now and then, and keeps its rate.
        let plans = ["3/s burst 7", "3/s burst 4"].map(|limit| {
            let gold = plan("gold", limit);
            if shadow { gold.in_shadow() } else { gold }
        });
        let users = [key("ada"), key("bob")];
        for (user, of_plan, step_ms, units) in calls {
            for clock in [&its_clock, &clock] {
                let step = Duration::from_millis(step_ms.unsigned_abs());
                if step_ms < 0 { clock.step_back(step) } else { clock.advance(step) }
            }
            let (user, plan, cost) = (&users[user], &plans[of_plan], cost(units));
            let verdict = in_full.try_acquire_sync(user, std::slice::from_ref(plan), cost).unwrap();
            let (admitted, of_plenty) = spend(&quick, user, plan, cost);
            prop_assert_eq!(admitted, verdict.admitted);
            prop_assert!(!of_plenty || verdict.plans[0].admits && verdict.plans[0].remaining > 0);
            for user in &users {
                let look = |store: &MemoryStore| {
                    store.peek_sync(user, std::slice::from_ref(plan), Cost::ONE).unwrap()
                };
                prop_assert_eq!(look(&quick), look(&in_full));
            }
        }
    }
}
