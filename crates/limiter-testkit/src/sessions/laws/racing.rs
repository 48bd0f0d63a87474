//! One call is one atomic step.

use std::collections::BTreeMap;

use super::super::SessionStoreUnderTest;
use super::probe::{KEEP, Probe, visit};

const TASKS: u32 = 64;
const NODES: u32 = 8;

/// Racing observers on several nodes: each pair gets exactly one session, and every request counts once.
pub async fn racing_observers_begin_one_session_for_each_pair(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    let each = sut.racing_calls() / TASKS;
    let pairs = (each / 2).max(1);
    let nodes: Vec<_> = (0..NODES).map(|_| sut.node()).collect();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let node = nodes[(task % NODES) as usize].clone();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                for nth in 0..each {
                    let pair = nth % pairs;
                    let observed = node.observe(&visit(pair / 2, pair % 2), KEEP).await;
                    let observed = observed.expect("observe answers");
                    seen.push((pair, observed.session.id, observed.is_new));
                }
                seen
            })
        })
        .collect();
    let mut ids = BTreeMap::new();
    let (mut began, mut counts) = (0, BTreeMap::<u32, u64>::new());
    for task in tasks {
        for (pair, id, is_new) in task.await.expect("no task panics") {
            assert_eq!(
                *ids.entry(pair).or_insert(id),
                id,
                "two sessions of one pair"
            );
            began += u32::from(is_new);
            *counts.entry(pair).or_default() += 1;
        }
    }
    assert_eq!(began, pairs);
    for (pair, id) in ids {
        let session = probe.get(&id).await.expect("it lives");
        assert_eq!(session.request_count, counts[&pair]);
        let of_fingerprint = probe.ids_of(&visit(pair / 2, 0)).await;
        assert!(of_fingerprint.contains(&id) && of_fingerprint.len() <= 2);
    }
    let sessions: u64 = sum(&probe, |signal| signal.total_sessions).await;
    assert_eq!(sessions, pairs.into());
}

async fn sum(probe: &Probe, of: impl Fn(limiter_sessions::IpSignal) -> u64) -> u64 {
    let mut sum = 0;
    for nth in 0..2 {
        sum += probe.signal(&visit(0, nth)).await.map_or(0, &of);
    }
    sum
}
