//! Stores of sessions on servers that fail, and on the server's own clock. Whatever fails, no key stays for ever.
#![cfg(test)]

mod outages;
mod refusals;
mod slots;
mod stats;
mod values;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use limiter_core::StoreError;
use limiter_sessions::{Anomaly, Label, Nonce, Retention, SessionId, Severity, Visit};
use limiter_store_tests::{PATIENT, Sessions};
use limiter_testkit::server::{RedisServer, Reply};

const KEEP: Retention = Retention::HOUR;

fn visit() -> Visit {
    visit_of("ab")
}

fn visit_of(face: &str) -> Visit {
    let fingerprint = face.repeat(32).parse().expect("a fingerprint");
    Visit::new(fingerprint, "203.0.113.9".parse().expect("an address"))
}

fn nonce(nth: u32) -> Nonce {
    Nonce::new(&format!("n-{nth}")).expect("a nonce")
}

/// Observes somebody else until the store answers.
async fn connected(store: &Sessions) {
    let began = Instant::now();
    while let Err(error) = store.observe(&visit_of("cd"), KEEP).await {
        assert!(began.elapsed() < PATIENT, "no connection: {error:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Writes in each way that makes or prolongs a key; returns what failed.
async fn write_all(store: &Sessions, visit: &Visit, id: Option<&SessionId>) -> Vec<StoreError> {
    let odd = Label::new("odd").expect("a label");
    let mut failed = Vec::new();
    failed.extend(store.observe(visit, KEEP).await.err());
    if let Some(id) = id {
        failed.extend(store.touch(id, KEEP).await.err());
    }
    let anomaly = Anomaly::new(Severity::Low, odd.clone());
    failed.extend(store.push(&anomaly).await.err());
    failed.extend(store.join(&odd, &visit.fingerprint, KEEP).await.err());
    failed
}

/// Returns every key of a server with what it holds.
fn everything(server: &RedisServer) -> BTreeMap<Vec<u8>, Reply> {
    let keys = server.keys().expect("keys");
    let dump = |key: &Vec<u8>| {
        let dump = server.command(&[&b"DUMP"[..], key]);
        dump.expect("DUMP")
    };
    keys.iter().map(|key| (key.clone(), dump(key))).collect()
}
