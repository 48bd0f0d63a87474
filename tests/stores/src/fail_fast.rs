//! Calls that fail without waiting for anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::{Client, PATIENT, bucket, key, layout, spend};

/// Checks that other tasks on the one thread of a runtime run beside a task that calls servers
/// which are not there, again and again, and never waits by itself.
pub async fn calls_that_fail_let_others_get_on(client: Client, address: &str) {
    let address = address.to_owned();
    let called = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(longest_without_a_turn(client, &address))
    });
    let longest = called.await.expect("no panic");
    assert!(longest < 500, "{longest} calls before others had a turn");
}

async fn longest_without_a_turn(client: Client, address: &str) -> u32 {
    const CALLS: u32 = 10_000;
    let turns = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&turns);
    tokio::spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let store = client.store(address, &layout(), PATIENT);
    let (ann, gold, began) = (key("ann"), bucket(10), Instant::now());
    let (mut seen, mut since, mut longest) = (0, 0, 0);
    for _ in 0..CALLS {
        spend(&store, &ann, &gold).await.expect_err("no server");
        assert!(began.elapsed() < 4 * PATIENT, "calls wait for the server");
        let now = turns.load(Ordering::Relaxed);
        since = if now == seen { since + 1 } else { 0 };
        seen = now;
        longest = longest.max(since);
    }
    longest
}
