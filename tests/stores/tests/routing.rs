//! How stores find the nodes of a cluster: whatever the nodes call themselves, through a map of addresses, and with calls to one node
//! written together.
#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use limiter_core::{Cost, Key, Plan};
use limiter_store_tests::{
    BlackHole, PATIENT, Stage, Store, UNHURRIED, bucket, faults_on_clients, key, layout,
    recovers_for, spend,
};
use limiter_testkit::server::RedisCluster;

const RECOVERY: Duration = Duration::from_secs(5);
const USERS: u32 = 30;

faults_on_clients! {
    nodes_that_keep_their_hosts_to_themselves_are_found
    nodes_that_should_tell_a_name_and_have_none_are_found
    nodes_are_found_by_their_names
    nodes_are_reached_where_the_user_says
    slot_that_moved_is_followed_at_once
    calls_to_a_node_are_written_together
}

fn users() -> Vec<Key> {
    let users = (0..USERS).map(|nth| key(&format!("user {nth}")));
    users.collect()
}

/// Calls for users on every node.
async fn all_nodes_are_found(store: &Store, cluster: &RedisCluster) {
    let gold = bucket(10);
    for user in users() {
        let said = spend(store, &user, &gold).await.expect("an answer");
        assert_eq!(said.plans[0].remaining, 9);
    }
    for node in cluster.nodes() {
        assert!(!node.keys().expect("keys").is_empty());
    }
}

fn config_set(cluster: &RedisCluster, name: &str, value: &str) {
    for node in cluster.nodes() {
        node.config_set(name, value).expect("set");
    }
}

async fn nodes_that_keep_their_hosts_to_themselves_are_found(stage: &Stage) {
    let cluster = stage.cluster();
    config_set(
        &cluster,
        "cluster-preferred-endpoint-type",
        "unknown-endpoint",
    );
    let store = stage.client.store(&cluster.address(), &layout(), PATIENT);
    all_nodes_are_found(&store, &cluster).await;
    slot_moves(&store, &cluster).await;
    slot_is_on_its_way(&store, &cluster).await;
}

async fn nodes_that_should_tell_a_name_and_have_none_are_found(stage: &Stage) {
    let cluster = stage.cluster();
    config_set(&cluster, "cluster-preferred-endpoint-type", "hostname");
    let store = stage.client.store(&cluster.address(), &layout(), PATIENT);
    all_nodes_are_found(&store, &cluster).await;
    slot_moves(&store, &cluster).await;
    slot_is_on_its_way(&store, &cluster).await;
}

async fn nodes_are_found_by_their_names(stage: &Stage) {
    let cluster = stage.cluster();
    config_set(&cluster, "cluster-announce-hostname", "localhost");
    config_set(&cluster, "cluster-preferred-endpoint-type", "hostname");
    let store = stage.client.store(&cluster.address(), &layout(), PATIENT);
    all_nodes_are_found(&store, &cluster).await;
}

/// The nodes name ports at which nobody answers, as behind a translation of addresses.
async fn nodes_are_reached_where_the_user_says(stage: &Stage) {
    let cluster = stage.cluster();
    let real: Vec<u16> = cluster.nodes().map(|node| node.port()).collect();
    let address = cluster.address();
    let mut holes = Vec::new();
    for _ in &real {
        holes.push(BlackHole::open().await);
    }
    let told: Vec<u16> = holes.iter().map(|hole| hole.addr().port()).collect();
    cluster.announce_ports(&told).expect("announced");
    let map = told.into_iter().zip(real).collect();
    let store = stage
        .client
        .store_with_ports(&address, &layout(), PATIENT, map);
    all_nodes_are_found(&store, &cluster).await;
    slot_moves(&store, &cluster).await;
}

async fn slot_that_moved_is_followed_at_once(stage: &Stage) {
    let cluster = stage.cluster();
    let store = stage.client.store(&cluster.address(), &layout(), UNHURRIED);
    for user in users() {
        recovers_for(&store, &user, &bucket(10), RECOVERY).await;
    }
    slot_moves(&store, &cluster).await;
    slot_is_on_its_way(&store, &cluster).await;
}

/// Moves a slot that is asked for: the very call that hears of it is answered.
async fn slot_moves(store: &Store, cluster: &RedisCluster) {
    let (gold, moving) = (bucket(10), key("moving"));
    recovers_for(store, &moving, &gold, RECOVERY).await;
    let slot = slot_with(cluster, "moving");
    for nth in 1..=3 {
        let from = cluster.primary_of(slot).expect("a primary").port();
        let to = cluster.nodes().find(|node| node.port() != from);
        cluster
            .migrate_slot(slot, to.expect("another"))
            .expect("moved");
        let said = spend(store, &moving, &gold).await.expect("an answer");
        assert_eq!(said.plans[0].remaining, 9 - nth);
    }
}

/// Returns the slot of the key whose name has `part`.
fn slot_with(cluster: &RedisCluster, part: &str) -> u16 {
    let mut names = cluster.nodes().flat_map(|node| node.keys().expect("keys"));
    let name = names.find(|name| String::from_utf8_lossy(name).contains(part));
    cluster.slot_of(name.expect("a key")).expect("a slot")
}

/// Moves the keys of a slot and not yet the slot: its node sends calls on, each for itself.
async fn slot_is_on_its_way(store: &Store, cluster: &RedisCluster) {
    let (gold, leaving) = (bucket(10), key("leaving"));
    recovers_for(store, &leaving, &gold, RECOVERY).await;
    let slot = slot_with(cluster, "leaving");
    let from = cluster.primary_of(slot).expect("a primary").port();
    let to = cluster.nodes().find(|node| node.port() != from);
    let migration = cluster.begin_migration(slot, to.expect("another"));
    let migration = migration.expect("begun");
    while migration.move_keys(10).expect("moved") > 0 {}
    for nth in 1..=3 {
        let said = spend(store, &leaving, &gold).await.expect("an answer");
        assert_eq!(said.plans[0].remaining, 9 - nth);
    }
    migration.finish().expect("moved");
}

async fn calls_to_a_node_are_written_together(stage: &Stage) {
    const CALLS: u32 = 300;
    /// If each call were written by itself, a node would read about a hundred times.
    const MOST_READS: u64 = 40;
    let cluster = stage.cluster();
    let store = stage.client.store(&cluster.address(), &layout(), PATIENT);
    let gold = bucket(10);
    for user in users() {
        recovers_for(&store, &user, &gold, RECOVERY).await;
    }
    let reads = || {
        let reads = cluster.nodes().map(|node| {
            let stats = node.info("stats").expect("stats");
            stats["total_reads_processed"]
                .parse::<u64>()
                .expect("a number")
        });
        reads.collect::<Vec<_>>()
    };
    let before = reads();
    let said = all_at_once(&store, &gold, CALLS).await;
    assert_eq!(said, CALLS);
    for (before, after) in before.into_iter().zip(reads()) {
        let reads = after - before;
        assert!(reads <= MOST_READS, "a node read {reads} times");
    }
}

/// Makes calls that are ready at the same time; returns how many were answered as the first of their user.
async fn all_at_once(store: &Store, gold: &Plan, calls: u32) -> u32 {
    let (store, gold) = (Arc::clone(store), [gold.clone()]);
    let calls = tokio::spawn(async move {
        let users: Vec<_> = (0..calls).map(|nth| key(&format!("other {nth}"))).collect();
        let calls = users.iter();
        let said = join_all(calls.map(|user| store.try_acquire(user, &gold, Cost::ONE))).await;
        let remaining = said.into_iter().map(|said| said.expect("an answer"));
        remaining
            .filter(|said| said.plans[0].remaining == 9)
            .count()
    });
    let answered = calls.await.expect("no panic");
    u32::try_from(answered).expect("few")
}
