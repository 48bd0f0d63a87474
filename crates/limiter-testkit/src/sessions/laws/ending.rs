//! What has ended stays ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Once `end` was confirmed, no late request brings a session back, however they race.
pub async fn ended_sessions_are_never_resurrected(sut: &impl SessionStoreUnderTest) {
    const LATE: u32 = 4;
    const REQUESTS: u32 = 8;
    let probe = Probe::of(sut);
    for round in 0..sut.racing_calls() / (LATE * REQUESTS * 4) {
        let id = probe.observe(&visit(round, 1)).await.session.id;
        let ended = Arc::new(AtomicBool::new(false));
        let late: Vec<_> = (0..LATE)
            .map(|_| {
                let (store, ended) = (sut.store(), Arc::clone(&ended));
                tokio::spawn(async move {
                    for _ in 0..REQUESTS {
                        let is_late = ended.load(Ordering::SeqCst);
                        let touched = store.touch(&id, KEEP).await.expect("touch answers");
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
