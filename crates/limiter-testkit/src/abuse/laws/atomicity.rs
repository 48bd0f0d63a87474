//! One call is one atomic step.

use std::sync::Arc;

use limiter_core::minutes;

use super::super::AbuseStoreUnderTest;
use super::probe::{Probe, built, one_tier};

const CLIENTS: u32 = 16;
const ATTEMPTS: u32 = 10_000;

/// Lets [`CLIENTS`] clients make [`ATTEMPTS`] attempts between them; counts those that were allowed and those that said
/// that they started the block.
async fn race(probe: &Probe) -> (u32, u32) {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (store, key) = (Arc::clone(&probe.store), probe.key.clone());
            let policy = probe.policy.clone();
            tokio::spawn(async move {
                let (mut allowed, mut started) = (0, 0);
                for _ in 0..ATTEMPTS / CLIENTS {
                    let verdict = store.record(&key, &policy).await;
                    let verdict = verdict.expect("record gives a verdict");
                    allowed += u32::from(verdict.block.is_none());
                    started += u32::from(verdict.started);
                }
                (allowed, started)
            })
        })
        .collect();
    let mut sum = (0, 0);
    for client in clients {
        let (allowed, started) = client.await.expect("no client panics");
        sum = (sum.0 + allowed, sum.1 + started);
    }
    sum
}

/// Of 10,000 racing attempts of 16 clients at a threshold of 5, exactly 4 are allowed, and one starts the block.
pub async fn racing_attempts_are_allowed_exactly_up_to_the_threshold(
    sut: &impl AbuseStoreUnderTest,
) {
    let probe = Probe::of(sut, built(one_tier(5, minutes(10), minutes(15))));
    assert_eq!(race(&probe).await, (4, 1));
}
