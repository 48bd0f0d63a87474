//! Many clients, many tasks, one key: not one unit too many, and every caller gets its own reply.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "this is a test"
)]

use std::time::Duration;

use limiter_core::{Cost, Plan};
use limiter_store_tests::{Client, PATIENT, Store, key, layout, on_clients, plan};
use limiter_testkit::server::{Flavour, RedisCluster, RedisServer};

const INSTANCES: usize = 16;
const TASKS: usize = 64;

on_clients! {
    racing_clients_never_overspend_one_plan
    racing_clients_never_overspend_a_chain
    racing_clients_never_overspend_on_a_cluster
}

async fn admitted(stores: &[Store], plans: &[Plan], calls: usize) -> u32 {
    let tasks: Vec<_> = stores
        .iter()
        .flat_map(|store| (0..TASKS).map(move |_| store.clone()))
        .map(|store| {
            let plans = plans.to_vec();
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..calls {
                    let said = store.try_acquire(&key("one"), &plans, Cost::ONE).await;
                    let said = said.expect("an answer");
                    assert_eq!(said.plans.len(), plans.len(), "another caller's reply");
                    admitted += u32::from(said.admitted);
                }
                admitted
            })
        })
        .collect();
    let mut total = 0;
    for task in tasks {
        total += task.await.expect("no panic");
    }
    total
}

fn stores(client: Client, address: &str) -> Vec<Store> {
    let layout = layout();
    (0..INSTANCES)
        .map(|_| client.store(address, &layout, PATIENT * 4))
        .collect()
}

async fn racing_clients_never_overspend_one_plan(client: Client) {
    let server = RedisServer::start(Flavour::Redis).expect("Redis starts");
    let stores = stores(client, &server.url());
    let limits = [
        "1/h burst 3000",
        "sliding 3000/h",
        "fixed 3000/h",
        "suppressing 3000/h hard 3000",
    ];
    for (nth, limit) in limits.into_iter().enumerate() {
        let plans = [plan(&format!("plan-{nth}"), limit)];
        assert_eq!(admitted(&stores, &plans, 5).await, 3000, "{limit}");
    }
}

async fn racing_clients_never_overspend_a_chain(client: Client) {
    let server = RedisServer::start(Flavour::Redis).expect("Redis starts");
    let stores = stores(client, &server.url());
    let plans = [
        plan("a", "1/h burst 3000"),
        plan("b", "sliding 2000/h"),
        plan("c", "fixed 2500/h"),
    ];
    assert_eq!(admitted(&stores, &plans, 5).await, 2000);
    let said = stores[0]
        .peek(&key("one"), &plans, Cost::ONE)
        .await
        .expect("an answer");
    let remaining: Vec<_> = said.plans.iter().map(|plan| plan.remaining).collect();
    assert_eq!(remaining, [1000, 0, 500]);
    assert!(said.retry_after > Duration::ZERO);
}

async fn racing_clients_never_overspend_on_a_cluster(client: Client) {
    let cluster = RedisCluster::start(Flavour::Redis).expect("a cluster starts");
    let stores = stores(client, &cluster.address());
    let one = [plan("one", "1/h burst 1500")];
    assert_eq!(admitted(&stores, &one, 2).await, 1500);
    let chain = [
        plan("a", "1/h burst 1500"),
        plan("b", "sliding 1000/h"),
        plan("c", "fixed 1200/h"),
    ];
    assert_eq!(admitted(&stores, &chain, 2).await, 1000);
}
