//! Many clients, many tasks: not one unit too many of a key that they share, and every caller gets its own reply.
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
/// How often a caller calls that shares its key with nobody.
const OWN_CALLS: u32 = 10;

on_clients! {
    racing_clients_never_overspend_one_plan
    racing_clients_never_overspend_a_chain
    racing_clients_never_overspend_on_a_cluster
    racing_callers_get_their_own_replies
    racing_callers_get_their_own_replies_on_a_cluster
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

async fn racing_callers_get_their_own_replies(client: Client) {
    let server = RedisServer::start(Flavour::Redis).expect("Redis starts");
    everyone_gets_their_own(&stores(client, &server.url())).await;
}

async fn racing_callers_get_their_own_replies_on_a_cluster(client: Client) {
    let cluster = RedisCluster::start(Flavour::Redis).expect("a cluster starts");
    everyone_gets_their_own(&stores(client, &cluster.address())).await;
}

/// Every caller has a key, limits and a cost of its own, and no two replies are alike, neither in what is left nor in what is spent:
/// they tell whose reply it is, and which.
async fn everyone_gets_their_own(stores: &[Store]) {
    let callers = (0..u32::try_from(TASKS).expect("few"))
        .flat_map(|task| stores.iter().cloned().map(move |store| (task, store)));
    let tasks: Vec<_> = callers
        .zip(0..)
        .map(|((task, store), caller)| {
            let own = key(&format!("caller {caller}"));
            let plans = own_plans(caller, task % 4);
            let cost = caller + 1;
            tokio::spawn(async move {
                for nth in 1..=OWN_CALLS {
                    let spent = nth * cost;
                    let cost = Cost::new(cost).expect("a cost");
                    let said = store.try_acquire(&own, &plans, cost).await;
                    let said = said.expect("an answer");
                    let left: Vec<_> = said.plans.iter().map(|plan| plan.remaining).collect();
                    let units = plans.iter().map(|plan| plan.limit().units());
                    let own_left: Vec<_> = units.map(|units| units - spent).collect();
                    assert_eq!(left, own_left, "caller {caller} got another's reply");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("everyone gets their own reply");
    }
}

/// Returns plans of the caller's own size: `kind` plus one token buckets, or a chain of other algorithms.
fn own_plans(caller: u32, kind: u32) -> Vec<Plan> {
    let units = |nth: u32| 1_000_000 + OWN_CALLS * (4 * caller + nth);
    if kind == 3 {
        return vec![
            plan("a", &format!("sliding {}/h", units(0))),
            plan("b", &format!("fixed {}/h", units(1))),
        ];
    }
    let bucket = |nth| plan(&format!("plan-{nth}"), &format!("1/h burst {}", units(nth)));
    (0..=kind).map(bucket).collect()
}
