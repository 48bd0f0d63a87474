//! What has ended stays ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use limiter_sessions::SessionPorts;

use super::super::SessionStoreUnderTest;
use super::probe::{KEEP, Probe, visit};

/// An ended session is found by nobody, and is ended once.
pub async fn ended_session_is_gone(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    let id = probe.observe(&visit(1, 1)).await.session.id;
    let other = probe.observe(&visit(1, 2)).await.session.id;
    assert!(probe.end(&id).await);
    assert_eq!(probe.get(&id).await, None);
    assert_eq!(probe.touch(&id).await, None);
    assert_eq!(probe.get(&id).await, None);
    assert_eq!(probe.ids_of(&visit(1, 1)).await, [other]);
    assert!(!probe.end(&id).await);
}

/// The next visit begins a session with another id; the old id does not find it, and cannot end it.
pub async fn visit_after_an_end_begins_another_session(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    let old = probe.observe(&visit(1, 1)).await.session.id;
    assert!(probe.end(&old).await);
    let next = probe.observe(&visit(1, 1)).await;
    assert!(next.is_new && next.session.id != old);
    assert_eq!(next.session.request_count, 1);
    assert_eq!(
        (probe.get(&old).await, probe.touch(&old).await),
        (None, None)
    );
    assert!(!probe.end(&old).await);
    assert_eq!(probe.ids_of(&visit(1, 1)).await, [next.session.id]);
    assert!(probe.get(&next.session.id).await.is_some());
}

/// How many late requests race with an end, each on a node of its own, and how often each of them asks.
const LATE: u32 = 4;
const REQUESTS: u32 = 8;

fn nodes(sut: &impl SessionStoreUnderTest) -> Vec<Arc<dyn SessionPorts>> {
    (0..LATE).map(|_| sut.node()).collect()
}

fn rounds(sut: &impl SessionStoreUnderTest) -> u32 {
    sut.racing_calls() / (LATE * REQUESTS * 8)
}

/// Once `end` was confirmed, no late request on any node brings a session back, however they race.
pub async fn ended_sessions_are_never_resurrected(sut: &impl SessionStoreUnderTest) {
    let (probe, nodes) = (Probe::of(sut), nodes(sut));
    for round in 0..rounds(sut) {
        let id = probe.observe(&visit(round, 1)).await.session.id;
        let ended = Arc::new(AtomicBool::new(false));
        let late: Vec<_> = nodes
            .iter()
            .map(|node| {
                let (node, ended) = (Arc::clone(node), Arc::clone(&ended));
                tokio::spawn(async move {
                    for _ in 0..REQUESTS {
                        let is_late = ended.load(Ordering::SeqCst);
                        let touched = node.touch(&id, KEEP).await.expect("touch answers");
                        assert!(!is_late || touched.is_none(), "a late request found it");
                    }
                })
            })
            .collect();
        assert!(probe.end(&id).await);
        ended.store(true, Ordering::SeqCst);
        assert_eq!(probe.get(&id).await, None);
        for request in late {
            request.await.expect("no late request finds the session");
        }
        assert_eq!(probe.get(&id).await, None);
        assert_eq!(probe.ids_of(&visit(round, 1)).await, []);
    }
}

/// Visits on several nodes race with the end of their session: those after it begin one other session between them, which counts
/// them all, and none of them brings the old one back.
pub async fn visits_that_race_with_an_end_begin_one_other_session(
    sut: &impl SessionStoreUnderTest,
) {
    let (probe, nodes) = (Probe::of(sut), nodes(sut));
    for round in 0..rounds(sut) {
        let old = probe.observe(&visit(round, 1)).await.session.id;
        let ended = Arc::new(AtomicBool::new(false));
        let visitors: Vec<_> = nodes
            .iter()
            .map(|node| {
                let (node, ended) = (Arc::clone(node), Arc::clone(&ended));
                tokio::spawn(async move {
                    let mut seen = Vec::new();
                    for _ in 0..REQUESTS {
                        let is_late = ended.load(Ordering::SeqCst);
                        let observed = node.observe(&visit(round, 1), KEEP).await;
                        let observed = observed.expect("observe answers");
                        let is_old = observed.session.id == old;
                        assert!(!(is_late && is_old), "a late visit found it");
                        seen.push(observed);
                    }
                    seen
                })
            })
            .collect();
        assert!(probe.end(&old).await);
        ended.store(true, Ordering::SeqCst);
        let mut seen = vec![probe.observe(&visit(round, 1)).await];
        for visitor in visitors {
            seen.extend(visitor.await.expect("no late visit finds the session"));
        }
        seen.retain(|observed| observed.session.id != old);
        let next = seen[0].session.id;
        assert!(seen.iter().all(|observed| observed.session.id == next));
        assert_eq!(seen.iter().filter(|observed| observed.is_new).count(), 1);
        assert_eq!(probe.get(&old).await, None);
        assert_eq!(probe.touch(&old).await, None);
        assert_eq!(probe.ids_of(&visit(round, 1)).await, [next]);
        let session = probe.get(&next).await.expect("it lives");
        assert_eq!(session.request_count, seen.len() as u64);
    }
}
