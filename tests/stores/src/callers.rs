//! Callers each of whom would see at once that a reply was another's.

use std::time::Duration;

use limiter_core::{Cost, Key, Plan};
use limiter_testkit::proxy::{Direction, FaultProxy, ReplyFault, ReplyRule, Toxic};
use tokio::time::sleep;

use crate::{Store, bucket, spend, spent};

/// Spends an amount that no other caller spends, so that what is spent tells whose a reply is.
async fn spent_before(store: &Store, own: &Key, gold: &Plan, nth: usize) -> u32 {
    let first = (u32::try_from(nth).expect("a few callers") + 1) * 1_000;
    let cost = Cost::new(first).expect("a cost");
    let said = store.try_acquire(own, std::slice::from_ref(gold), cost);
    assert!(said.await.expect("an answer").admitted);
    first
}

/// Sends a surplus reply to callers of a server behind `proxy`, which has the keys of all. Under
/// load, each reply after it would be read as one to another call, for ever; so the connection is
/// given up.
pub async fn no_surplus_reply_is_read_as_an_answer(
    store: &Store,
    proxy: &FaultProxy,
    callers: Vec<Key>,
) {
    // So that there are always calls under way.
    proxy.add(
        Direction::Replies,
        Toxic::Latency {
            delay: Duration::from_millis(5),
            jitter: Duration::from_millis(5),
        },
    );
    let count = callers.len();
    let callers: Vec<_> = callers
        .into_iter()
        .enumerate()
        .map(|(nth, own)| {
            let store = store.clone();
            tokio::spawn(async move {
                let (gold, mut wrong) = (bucket(1_000_000), 0);
                let first = spent_before(&store, &own, &gold, nth).await;
                for _ in 0..100 {
                    if let Ok(said) = spend(&store, &own, &gold).await {
                        let spent = 1_000_000 - said.plans[0].remaining;
                        wrong += usize::from(!(first..=first + 100).contains(&spent));
                    }
                    sleep(Duration::from_micros(fastrand::u64(0..3000))).await;
                }
                wrong
            })
        })
        .collect();
    sleep(Duration::from_millis(100)).await;
    let surplus = "+OK\r\n+OK\r\n";
    proxy.add_rule(ReplyRule::next(1, ReplyFault::Garbage(surplus.into())).to_command("EVALSHA"));
    let mut wrong = 0;
    for caller in callers {
        wrong += caller.await.expect("every call in time");
    }
    // Replies that were read together with it have found their calls before it is understood.
    assert!(wrong <= count, "{wrong} calls got a reply to another");
}

/// Drops callers at random moments: none gets a reply to another.
pub async fn no_cancelled_caller_gets_anothers_reply(store: &Store, callers: Vec<Key>) {
    let callers: Vec<_> = callers
        .into_iter()
        .enumerate()
        .map(|(nth, own)| {
            let store = store.clone();
            tokio::spawn(async move {
                let (gold, mut kept) = (bucket(1_000_000), 0);
                let first = spent_before(&store, &own, &gold, nth).await;
                for _ in 0..100 {
                    let plans = [gold.clone()];
                    let call = store.try_acquire(&own, &plans, Cost::ONE);
                    let patience = Duration::from_micros(fastrand::u64(0..2000));
                    if let Ok(said) = tokio::time::timeout(patience, call).await {
                        let spent = 1_000_000 - said.expect("an answer").plans[0].remaining;
                        assert!((first..=first + 100).contains(&spent), "{spent} spent");
                        kept += 1;
                    }
                }
                let spent = spent(&store, &own, &gold).await - first;
                assert!((kept..=100).contains(&spent), "{kept} kept, {spent} spent");
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("no wrong reply");
    }
}
