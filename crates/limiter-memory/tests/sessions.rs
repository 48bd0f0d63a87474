//! The in-process store of sessions is capped, and frees what has expired by itself.
#![cfg(test)]

use std::sync::Arc;

use limiter_core::{Key, StoreError, hours};
use limiter_memory::MemorySessionStore;
use limiter_sessions::{
    Fingerprint, FingerprintClusters, IpSignals, Label, Nonce, NonceStore, NonceUse, Retention,
    SessionStore, Visit, VisitorIp,
};
use limiter_testkit::{ManualClock, block_on};

const KEEP: Retention = Retention::HOUR;

fn store(max_keys: usize) -> (MemorySessionStore, ManualClock) {
    let clock = ManualClock::new();
    let builder = MemorySessionStore::builder().clock(Arc::new(clock.clone()));
    (builder.max_keys(max_keys).build().unwrap(), clock)
}

fn visit(fingerprint: u32, ip: u32) -> Visit {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&fingerprint.to_be_bytes());
    let ip = VisitorIp::new((0x0a00_0001 + ip).to_be_bytes().into()).unwrap();
    Visit::new(Fingerprint::from_bytes(bytes), ip)
}

fn is_full<T>(said: Result<T, StoreError>) -> bool {
    matches!(said, Err(StoreError::Full { max_keys: 2 }))
}

#[test]
fn full_store_refuses_new_visitors_and_keeps_those_it_knows() {
    let (store, clock) = store(2);
    block_on(async {
        for nth in 0..2 {
            let _ = store.observe(&visit(nth, nth), KEEP).await.unwrap();
        }
        assert!(is_full(store.observe(&visit(2, 0), KEEP).await));
        let known = store.observe(&visit(1, 1), KEEP).await.unwrap();
        assert_eq!((known.is_new, known.session.request_count), (false, 2));
        assert!(store.end(&known.session.id).await.unwrap());
        let new = store.observe(&visit(2, 2), KEEP).await.unwrap();
        assert!(
            new.is_new && !new.in_signals,
            "there is no room for a third address"
        );
        assert_eq!(store.signal(visit(2, 2).ip).await.unwrap(), None);
        clock.advance(hours(1));
        assert!(store.observe(&visit(3, 3), KEEP).await.unwrap().in_signals);
    });
}

#[test]
fn full_store_accepts_no_nonce() {
    let (store, clock) = store(2);
    let scope = Key::new("form").unwrap();
    let nonce = |nth: u32| Nonce::new(&format!("n-{nth}")).unwrap();
    block_on(async {
        for nth in 0..2 {
            let said = store.consume(&scope, &nonce(nth), KEEP).await.unwrap();
            assert_eq!(said, NonceUse::First);
        }
        assert!(is_full(store.consume(&scope, &nonce(2), KEEP).await));
        assert_eq!(
            store.consume(&scope, &nonce(0), KEEP).await.unwrap(),
            NonceUse::Replay
        );
        clock.advance(hours(1));
        assert_eq!(
            store.consume(&scope, &nonce(0), KEEP).await.unwrap(),
            NonceUse::First
        );
    });
}

#[test]
fn full_store_takes_no_more_members_of_clusters() {
    let (store, _) = store(2);
    let bots = Label::new("bots").unwrap();
    block_on(async {
        for nth in 0..2 {
            store
                .join(&bots, &visit(nth, 0).fingerprint, KEEP)
                .await
                .unwrap();
        }
        assert!(is_full(
            store.join(&bots, &visit(2, 0).fingerprint, KEEP).await
        ));
        assert_eq!(store.members(&bots).await.unwrap().len(), 2);
    });
}

#[test]
fn what_expired_is_freed_as_others_come() {
    let (store, clock) = store(100_000);
    block_on(async {
        for nth in 0..2_000 {
            let _ = store.observe(&visit(nth, nth), KEEP).await.unwrap();
        }
        assert_eq!(store.kept(), 4_000);
        clock.advance(hours(2));
        for nth in 0..1_000 {
            let _ = store
                .observe(&visit(5_000 + nth, 5_000 + nth), KEEP)
                .await
                .unwrap();
        }
        assert_eq!(store.kept(), 2_000);
    });
}

#[test]
fn ids_of_another_store_are_unknown_and_do_no_harm() {
    let ((one, _), (other, _)) = (store(10), store(10));
    block_on(async {
        let session = one.observe(&visit(1, 1), KEEP).await.unwrap().session;
        let stranger = other.observe(&visit(1, 1), KEEP).await.unwrap().session;
        assert_ne!(session.id, stranger.id);
        assert!(!one.end(&stranger.id).await.unwrap());
        assert_eq!(one.touch(&stranger.id, KEEP).await.unwrap(), None);
        assert_eq!(one.get(&session.id).await.unwrap(), Some(session));
    });
}
