//! Nothing stays behind, and nothing is shown.

use limiter_core::Key;
use limiter_sessions::{Anomaly, Label, Nonce, Retention, Severity};

use super::super::SessionStoreUnderTest;
use super::probe::{GRACE, KEEP, MICROSECOND, Probe, fingerprint, likely, visit};

const NONCE: &str = "Very-Secret-Nonce-0815";

/// Does everything that leaves something behind.
async fn everything(probe: &Probe) {
    for nth in 1..=3 {
        let _ = probe
            .observe(&visit(nth, 1).with_bot_probability(likely(5)))
            .await;
        let _ = probe.observe(&visit(1, nth)).await;
    }
    let ids = probe.ids_of(&visit(2, 1)).await;
    assert!(probe.touch(&ids[0]).await.is_some());
    assert!(probe.end(&ids[0]).await);
    let bots = Label::new("bots").expect("a label");
    let joined = probe.store.join(&bots, &fingerprint(1), KEEP).await;
    joined.expect("join is confirmed");
    let anomaly = Anomaly::new(Severity::Low, Label::new("odd").expect("a label"));
    probe.store.push(&anomaly).await.expect("push is confirmed");
    let (scope, nonce) = (
        Key::new("form").expect("a scope"),
        Nonce::new(NONCE).expect("a nonce"),
    );
    let _ = probe
        .store
        .consume(&scope, &nonce, KEEP)
        .await
        .expect("consume answers");
}

/// Once everything has outlived its time, nothing is left.
pub async fn nothing_stays_behind(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    everything(&probe).await;
    assert!(sut.kept().await > 0);
    probe.advance(Retention::DAY.get() + GRACE);
    sut.forget_idle().await;
    assert_eq!(sut.kept().await, 0);
}

/// Freeing memory takes nothing that lives, to the last microsecond.
pub async fn forgetting_takes_nothing_that_lives(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    everything(&probe).await;
    let ids = probe.ids_of(&visit(1, 1)).await;
    probe.advance(KEEP.get() - MICROSECOND);
    sut.forget_idle().await;
    assert_eq!(probe.ids_of(&visit(1, 1)).await, ids);
    for id in &ids {
        assert!(probe.get(id).await.is_some());
    }
    let signal = probe.signal(&visit(1, 1)).await.expect("it was seen");
    assert_eq!((signal.total_sessions, signal.unique_fingerprints), (3, 3));
    let bots = Label::new("bots").expect("a label");
    let members = probe.store.members(&bots).await.expect("members answers");
    assert_eq!(members, [fingerprint(1)]);
}

/// At no time is there a key that nothing would ever free.
pub async fn no_key_is_without_an_end(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    for _ in 0..2 {
        everything(&probe).await;
        assert_eq!(sut.immortal_keys().await, 0);
        probe.advance(KEEP.get());
    }
}

/// No name of a key shows an address, a fingerprint or a nonce, be it as text or as bytes.
pub async fn no_name_shows_a_visitor(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    everything(&probe).await;
    let mut secrets: Vec<Vec<u8>> = vec![NONCE.into(), NONCE.to_lowercase().into()];
    for nth in 1..=3 {
        let visit = visit(nth, nth);
        secrets.push(visit.ip.get().to_string().into());
        secrets.push(match visit.ip.get() {
            std::net::IpAddr::V4(ip) => ip.octets().to_vec(),
            std::net::IpAddr::V6(ip) => ip.octets().to_vec(),
        });
        secrets.push(visit.fingerprint.as_bytes()[..8].to_vec());
        secrets.push(visit.fingerprint.to_hex().as_bytes()[..16].to_vec());
    }
    for name in sut.key_names().await {
        for secret in &secrets {
            let shows = name.windows(secret.len()).any(|part| part == secret);
            assert!(
                !shows,
                "{:?} shows a visitor",
                String::from_utf8_lossy(&name)
            );
        }
    }
}
