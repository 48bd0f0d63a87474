//! Calls that are made at the same time share round trips: the server reads many at once, each gets its own reply, and one
//! that fails spoils no other.
#![cfg(test)]

/// Makes a test of each function for every client on every kind of server. The oldest says otherwise what went wrong inside a
/// script.
macro_rules! on_clients_and_old_servers_too {
    ($($test:ident)*) => {
        limiter_store_tests::on_clients_and_servers! { $($test)* }
        limiter_store_tests::on_clients_and_servers! { @redis_rs_on_redis_6_2 Redis Redis62 $($test)* }
        limiter_store_tests::on_clients_and_servers! { @fred_on_redis_6_2 Fred Redis62 $($test)* }
    };
}

mod endings;
mod forgotten_scripts;
mod refusals;
mod sharing;

use std::sync::Arc;

use futures_util::future::join_all;
use limiter_core::{Cost, Key, Plan, StoreError, Verdict};
use limiter_lua::{KeyLayout, Script};
use limiter_sessions::Visit;
use limiter_store_tests::{Client, PATIENT, Store, key, layout};
use limiter_testkit::server::{Flavour, RedisServer};

/// How many calls are made at the same time.
const CALLS: u32 = 64;

fn started(client: Client, flavour: Flavour) -> (RedisServer, KeyLayout, Store) {
    let server = RedisServer::start(flavour).expect("a server");
    let layout = layout();
    let store = client.store(&server.url(), &layout, PATIENT);
    (server, layout, store)
}

fn user(nth: u32) -> Key {
    key(&format!("user-{nth}"))
}

fn users() -> Vec<Key> {
    (0..CALLS).map(user).collect()
}

fn visit(nth: u32) -> Visit {
    let fingerprint = format!("{nth:064x}").parse().expect("a fingerprint");
    Visit::new(fingerprint, "203.0.113.9".parse().expect("an address"))
}

/// Connects, and makes the scripts known in every form that is used.
async fn warmed_up(store: &Store, plans: &[Plan]) {
    for calls in [1, 8] {
        let warm = key("warm");
        let calls = (0..calls).map(|_| store.try_acquire(&warm, plans, Cost::ONE));
        for said in join_all(calls).await {
            assert!(said.expect("an answer").admitted);
        }
    }
}

fn stat(server: &RedisServer, name: &str) -> u64 {
    let stats = server.info("stats").expect("stats");
    stats[name].parse().expect("a number")
}

/// How many connections were ever made, those of the test itself included.
fn connections(server: &RedisServer) -> u64 {
    stat(server, "total_connections_received")
}

/// Lets each user make a call at the same time: from one task, so that no thread is free to send some while others are made.
async fn all_at_once(
    store: &Store,
    users: &[Key],
    plans: &[Plan],
) -> Vec<Result<Verdict, StoreError>> {
    let (store, users, plans) = (Arc::clone(store), users.to_vec(), plans.to_vec());
    let calls = tokio::spawn(async move {
        let calls = users.iter();
        join_all(calls.map(|user| store.try_acquire(user, &plans, Cost::ONE))).await
    });
    calls.await.expect("no panic")
}

/// Loads every script in both forms.
fn knows_the_scripts(server: &RedisServer) {
    let loaded = |text: &str| server.command(&["SCRIPT", "LOAD", text]).expect("loads");
    for script in Script::ALL.into_iter().chain(Script::SESSIONS) {
        let (alone, batch) = (loaded(script.text()), loaded(script.batch_text()));
        assert_eq!(alone.text().as_deref(), Some(script.sha1()), "{script:?}");
        let sha1 = script.batch_sha1();
        assert_eq!(batch.text().as_deref(), Some(sha1), "{script:?}");
    }
}
