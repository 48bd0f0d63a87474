//! A nonce is fresh once.

use limiter_core::Key;
use limiter_sessions::{Nonce, NonceUse};

use super::super::SessionStoreUnderTest;
use super::probe::{KEEP, MICROSECOND, Probe};

fn nonce(text: &str) -> Nonce {
    Nonce::new(text).expect("laws use good nonces")
}

fn scope(text: &str) -> Key {
    Key::new(text).expect("laws use good scopes")
}

/// The first use is fresh; every other inside of the window is a replay, on all nodes.
pub async fn nonce_is_fresh_once(sut: &impl SessionStoreUnderTest) {
    let (probe, node) = (Probe::of(sut), sut.node());
    let (form, used) = (scope("form"), nonce("7f3A-01"));
    for expected in [NonceUse::First, NonceUse::Replay, NonceUse::Replay] {
        let said = probe.store.consume(&form, &used, KEEP).await;
        assert_eq!(said.expect("consume answers"), expected);
    }
    let elsewhere = node.consume(&form, &used, KEEP).await;
    assert_eq!(elsewhere.expect("consume answers"), NonceUse::Replay);
    let other = probe.store.consume(&form, &nonce("7f3a-01"), KEEP).await;
    assert_eq!(other.expect("consume answers"), NonceUse::First);
    probe.advance(KEEP.get() - MICROSECOND);
    sut.forget_idle().await;
    let late = probe.store.consume(&form, &used, KEEP).await;
    assert_eq!(late.expect("consume answers"), NonceUse::Replay);
}

/// Nobody can use up another one's nonce, however scope and nonce are cut.
pub async fn scopes_do_not_share_nonces(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    for (of, text) in [
        ("a", "1"),
        ("b", "1"),
        ("ab", "c"),
        ("a", "bc"),
        ("a\0b", "c"),
        ("A", "1"),
    ] {
        let said = probe.store.consume(&scope(of), &nonce(text), KEEP).await;
        assert_eq!(
            said.expect("consume answers"),
            NonceUse::First,
            "{of} {text}"
        );
    }
}

/// 64 tasks on each of 8 nodes offer nonces at the same time, each nonce 16 times: it is found fresh by exactly one.
pub async fn racing_callers_find_each_nonce_fresh_once(sut: &impl SessionStoreUnderTest) {
    const NODES: u32 = 8;
    const TASKS: u32 = 64 * NODES;
    let nonces = sut.racing_nonces();
    let nodes: Vec<_> = (0..NODES).map(|_| sut.node()).collect();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let node = nodes[(task % NODES) as usize].clone();
            tokio::spawn(async move {
                let mut fresh = Vec::new();
                // One in 32 of all, the same as 15 others: two on each node.
                for nth in (task / NODES % 32..nonces).step_by(32) {
                    let (form, offered) = (scope("form"), nonce(&format!("n-{nth}")));
                    let said = node.consume(&form, &offered, KEEP).await;
                    if said.expect("consume answers") == NonceUse::First {
                        fresh.push(nth);
                    }
                }
                fresh
            })
        })
        .collect();
    let mut fresh = Vec::new();
    for task in tasks {
        fresh.extend(task.await.expect("no task panics"));
    }
    fresh.sort_unstable();
    assert_eq!(fresh, (0..nonces).collect::<Vec<_>>());
}
