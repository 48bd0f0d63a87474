//! How full a store is.

use limiter_core::Key;
use limiter_sessions::Nonce;

use super::super::SessionStoreUnderTest;
use super::probe::{KEEP, Probe, visit};

/// Five sessions of three fingerprints from two addresses, and two nonces.
async fn fill(probe: &Probe) {
    for (fingerprint, ip) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)] {
        let _ = probe.observe(&visit(fingerprint, ip)).await;
    }
    let scope = Key::new("form").expect("a scope");
    for nonce in ["a", "b"] {
        let nonce = Nonce::new(nonce).expect("a nonce");
        let _ = probe.store.consume(&scope, &nonce, KEEP).await;
    }
}

/// What lives is counted, and so are memory and hits.
pub async fn stats_count_what_lives(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    fill(&probe).await;
    let ended = probe.ids_of(&visit(3, 1)).await;
    assert!(probe.end(&ended[0]).await);
    assert_eq!(probe.get(&ended[0]).await, None);
    let living = probe.ids_of(&visit(1, 1)).await;
    assert!(probe.get(&living[0]).await.is_some());
    let stats = probe.store.stats(1_000_000).await.expect("stats answers");
    assert!(stats.is_complete);
    assert_eq!((stats.sessions, stats.fingerprints), (4, 2));
    assert_eq!((stats.addresses, stats.nonces), (2, 2));
    assert!(stats.memory_bytes > 0 && stats.hits > 0 && stats.misses > 0);
    let rate = stats.hit_rate_ppm().expect("there were reads");
    assert!(0 < rate && rate < 1_000_000);
}

/// Looking at few keys counts few, and says so.
pub async fn stats_are_bounded(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    for nth in 0..2_000 {
        let _ = probe.observe(&visit(nth, nth)).await;
    }
    let stats = probe.store.stats(10).await.expect("stats answers");
    assert!(!stats.is_complete);
    assert!(stats.sessions < 2_000, "{stats:?}");
}
