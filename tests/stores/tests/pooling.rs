//! Several connections: all are used, a broken one is passed over and renewed, and the decisions stay exact.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "this is a test"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use limiter_core::{Cost, Plan};
use limiter_fred::fred::prelude::{Builder, ClientLike as _, Config};
use limiter_lua::Connections;
use limiter_redis::redis;
use limiter_store_tests::{
    Client, PATIENT, Store, bucket, key, layout, on_clients, recovers, spend,
};
use limiter_testkit::server::{Flavour, RedisServer};

const FOUR: u8 = 4;

on_clients! {
    calls_are_spread_over_the_connections_and_stay_exact
    dead_connections_are_passed_over_and_renewed
    connections_of_the_user_are_called_on_in_turn
}

fn pooled(client: Client, address: &str, deadline: Duration) -> Store {
    let connections = Connections::new(FOUR).expect("four");
    client.pooled_store(address, &layout(), deadline, connections)
}

/// Returns the connections that sent a script last, as the server lists them.
fn callers(server: &RedisServer) -> Vec<String> {
    let list = server.command(&["CLIENT", "LIST"]).expect("a list").text();
    let list = list.expect("text");
    let callers = list.lines().filter(|line| line.contains("cmd=eval"));
    callers.map(str::to_owned).collect()
}

async fn spend_by_64_tasks(store: &Store, each: u32) -> u32 {
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..each {
                    let said = store
                        .try_acquire(&key("one"), &[bucket(500)], Cost::ONE)
                        .await;
                    admitted += u32::from(said.expect("an answer").admitted);
                }
                admitted
            })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.expect("no panic");
    }
    admitted
}

async fn calls_are_spread_over_the_connections_and_stay_exact(client: Client) {
    let server = RedisServer::start(Flavour::Redis).expect("Redis starts");
    let store = pooled(client, &server.url(), PATIENT);
    assert_eq!(spend_by_64_tasks(&store, 20).await, 500);
    assert_eq!(callers(&server).len(), usize::from(FOUR));
}

async fn dead_connections_are_passed_over_and_renewed(client: Client) {
    let server = RedisServer::start(Flavour::Redis).expect("Redis starts");
    let store = pooled(client, &server.url(), PATIENT);
    let gold = bucket(100_000);
    recovers(&store, &gold, PATIENT).await;
    all_connections_are_used(&store, &gold, &server).await;
    // All but one are cut, and the server has no room for new ones: one, and that of the test.
    server.config_set("maxclients", "2").expect("set");
    for line in callers(&server).iter().skip(1) {
        let id = line.split(' ').next().and_then(|id| id.strip_prefix("id="));
        let kill = ["CLIENT", "KILL", "ID", id.expect("an id")];
        server.command(&kill).expect("killed");
    }
    let (began, mut failed) = (Instant::now(), 0);
    for _ in 0..200 {
        failed += u8::from(spend(&store, &key("ann"), &gold).await.is_err());
        assert!(began.elapsed() < PATIENT, "calls wait for the dead");
    }
    // The first call on a dead connection may fail; after that the living one has them all.
    assert!(failed < FOUR, "{failed} of 200 calls failed");
    server.config_set("maxclients", "100").expect("set");
    all_connections_are_used(&store, &gold, &server).await;
}

/// Calls until every connection has been used.
async fn all_connections_are_used(store: &Store, gold: &Plan, server: &RedisServer) {
    let began = Instant::now();
    while callers(server).len() < FOUR.into() {
        assert!(began.elapsed() < PATIENT, "connections stay unused");
        let _ = spend(store, &key("ann"), gold).await;
    }
}

async fn connections_of_the_user_are_called_on_in_turn(client: Client) {
    let server = RedisServer::start(Flavour::Redis).expect("Redis starts");
    let store: Store = match client {
        Client::Redis => {
            let client = redis::Client::open(server.url()).expect("a client");
            let config = redis::AsyncConnectionConfig::new()
                .set_connection_timeout(Some(PATIENT))
                .set_response_timeout(Some(PATIENT));
            let mut connections = Vec::new();
            for _ in 0..FOUR {
                let connection = client.get_multiplexed_async_connection_with_config(&config);
                let connection = connection.await;
                connections.push(connection.expect("connects"));
            }
            let store = limiter_redis::RedisStore::on_pool(connections);
            Arc::new(store.with_deadline(PATIENT).build().expect("a store"))
        }
        Client::Fred => {
            let config = Config::from_url(&server.url()).expect("a URL");
            let pool = Builder::from_config(config).build_pool(FOUR.into());
            let pool = pool.expect("a pool");
            pool.init().await.expect("connects");
            let store = limiter_fred::FredStore::on_pool(pool.clients().iter().cloned());
            Arc::new(store.with_deadline(PATIENT).build().expect("a store"))
        }
    };
    assert_eq!(spend_by_64_tasks(&store, 20).await, 500);
    assert_eq!(callers(&server).len(), usize::from(FOUR));
}
