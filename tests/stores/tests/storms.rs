//! How often a process connects to a server that is of no use: whatever the reason, at most twice a second for each of its connections,
//! as the server counts them.
#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use limiter_core::Plan;
use limiter_lua::Connections;
use limiter_store_tests::{
    DEADLINE, Stage, Store, bucket, faults_on_clients, key, layout, recovers, spend,
};
use limiter_testkit::proxy::{Direction, Ending, FaultProxy, ReplyFault, ReplyRule, Toxic};
use limiter_testkit::server::{RedisSentinel, RedisServer};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

const RECOVERY: Duration = Duration::from_secs(5);
const WATCHED: Duration = Duration::from_secs(3);
const MOST_A_SECOND: u64 = 2;

faults_on_clients! {
    demoted_server_is_called_on_twice_a_second
    server_that_closes_on_every_call_is_called_on_twice_a_second
    server_that_resets_on_every_call_is_called_on_twice_a_second
    server_that_never_answers_is_called_on_twice_a_second
    server_that_refuses_the_password_is_called_on_twice_a_second
    server_by_name_is_called_on_twice_a_second
    demoted_server_behind_sentinels_is_called_on_twice_a_second
    node_of_a_cluster_is_called_on_twice_a_second
}

/// Makes stores with one and with several connections.
fn stores(stage: &Stage, address: &str) -> [(Store, u64); 2] {
    [1, 8].map(|connections| {
        let many = Connections::new(connections).expect("some");
        let client = stage.client;
        let store = client.pooled_store(address, &layout(), DEADLINE, many);
        (store, connections.into())
    })
}

/// Calls from many tasks for a while; returns for how many whole and begun seconds.
async fn under_load(store: &Store, plan: &Plan) -> u64 {
    let began = Instant::now();
    let end = began + WATCHED;
    let mut tasks = JoinSet::new();
    for nth in 0..16 {
        let (store, plan) = (Arc::clone(store), plan.clone());
        tasks.spawn(async move {
            let user = key(&format!("user {nth}"));
            // A call is waited for until the end, but not beyond: what it says does not matter here.
            while Instant::now() < end {
                let _ = timeout_at(end, spend(&store, &user, &plan)).await;
                let _ = timeout_at(end, sleep(Duration::from_micros(100))).await;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("every call in time");
    }
    began.elapsed().as_secs() + 1
}

/// Checks how often a store has connected; that it has at all shows that there was something to count.
fn check(connected: u64, seconds: u64, connections: u64) {
    assert!(connected > 0, "nothing was tried");
    let most = MOST_A_SECOND * seconds * connections;
    assert!(
        connected <= most,
        "{connected} connections in {seconds} s by a store with {connections}"
    );
}

fn received(server: &RedisServer) -> u64 {
    let stats = server.info("stats").expect("stats");
    stats["total_connections_received"]
        .parse()
        .expect("a number")
}

async fn demoted_server_is_called_on_twice_a_second(stage: &Stage) {
    let server = stage.server();
    let gold = bucket(100_000);
    for (store, connections) in stores(stage, &server.url()) {
        recovers(&store, &gold, RECOVERY).await;
        server.demote().expect("demoted");
        let before = received(&server);
        let seconds = under_load(&store, &gold).await;
        check(received(&server) - before, seconds, connections);
        server.promote().expect("promoted");
        recovers(&store, &gold, RECOVERY).await;
    }
}

async fn server_that_closes_on_every_call_is_called_on_twice_a_second(stage: &Stage) {
    let (server, proxy) = stage.proxied().await;
    loses_every_reply(stage, &server, &proxy, Ending::Close).await;
}

async fn server_that_resets_on_every_call_is_called_on_twice_a_second(stage: &Stage) {
    let (server, proxy) = stage.proxied().await;
    loses_every_reply(stage, &server, &proxy, Ending::Reset).await;
}

async fn loses_every_reply(
    stage: &Stage,
    server: &RedisServer,
    proxy: &FaultProxy,
    ending: Ending,
) {
    let gold = bucket(100_000);
    for (store, connections) in stores(stage, &server.url_at(proxy.addr())) {
        recovers(&store, &gold, RECOVERY).await;
        for command in ["EVALSHA", "EVAL"] {
            let lost = ReplyRule::next(u32::MAX, ReplyFault::Lost(ending));
            proxy.add_rule(lost.to_command(command));
        }
        let before = proxy.counts().connections;
        let seconds = under_load(&store, &gold).await;
        check(proxy.counts().connections - before, seconds, connections);
        proxy.heal();
        recovers(&store, &gold, RECOVERY).await;
    }
}

async fn server_that_never_answers_is_called_on_twice_a_second(stage: &Stage) {
    let (server, proxy) = stage.proxied().await;
    let gold = bucket(100_000);
    for (store, connections) in stores(stage, &server.url_at(proxy.addr())) {
        recovers(&store, &gold, RECOVERY).await;
        proxy.add(Direction::Both, Toxic::Blackhole);
        let before = proxy.counts().connections;
        let seconds = under_load(&store, &gold).await;
        check(proxy.counts().connections - before, seconds, connections);
        proxy.heal();
        recovers(&store, &gold, RECOVERY).await;
    }
}

async fn server_that_refuses_the_password_is_called_on_twice_a_second(stage: &Stage) {
    let server = stage.start(stage.builder().with_password("secret"));
    let address = format!("redis://:wrong@{}", server.addr());
    for (store, connections) in stores(stage, &address) {
        let before = received(&server);
        let seconds = under_load(&store, &bucket(10)).await;
        check(received(&server) - before, seconds, connections);
    }
}

async fn server_by_name_is_called_on_twice_a_second(stage: &Stage) {
    let server = stage.start(stage.builder().with_password("secret"));
    let address = format!("redis://:wrong@localhost:{}", server.port());
    for (store, connections) in stores(stage, &address) {
        let before = received(&server);
        let seconds = under_load(&store, &bucket(10)).await;
        check(received(&server) - before, seconds, connections);
    }
}

/// The sentinels name a server that says that it is a replica: they learn late of what they did not do themselves.
async fn demoted_server_behind_sentinels_is_called_on_twice_a_second(stage: &Stage) {
    let group = stage.watch(RedisSentinel::start(stage.flavour).expect("sentinels"));
    let gold = bucket(100_000);
    let [primary, _] = group.data_nodes();
    for (store, connections) in stores(stage, &group.address()) {
        recovers(&store, &gold, RECOVERY).await;
        for sentinel in group.sentinels() {
            sentinel.pause().expect("stops");
        }
        primary.demote().expect("demoted");
        let before = received(primary);
        for sentinel in group.sentinels() {
            sentinel.resume().expect("goes on");
        }
        let seconds = under_load(&store, &gold).await;
        // Three sentinels and a replica connect to it as well when they find it demoted.
        let others = 16;
        check(
            (received(primary) - before).saturating_sub(others).max(1),
            seconds,
            connections,
        );
        primary.promote().expect("promoted");
        tokio::task::block_in_place(|| group.wait_until_ok()).expect("all is well again");
        recovers(&store, &gold, RECOVERY * 4).await;
    }
}

/// Every node closes on every call: neither calls nor the search for the slots dial them more often.
async fn node_of_a_cluster_is_called_on_twice_a_second(stage: &Stage) {
    let cluster = stage.cluster();
    let mut proxies = Vec::new();
    for node in cluster.nodes() {
        proxies.push(FaultProxy::start(node.addr()).await.expect("a proxy"));
    }
    let ports: Vec<_> = proxies.iter().map(|proxy| proxy.addr().port()).collect();
    cluster.announce_ports(&ports).expect("announced");
    let gold = bucket(100_000);
    // The nodes are named as they name themselves, and by another name that they do not know.
    let stores = ["127.0.0.1", "localhost"].map(|host| {
        let hosts = ports.iter().map(|port| format!("{host}:{port}"));
        let hosts: Vec<_> = hosts.collect();
        stores(stage, &format!("redis+cluster://{}", hosts.join(",")))
    });
    for (store, connections) in stores.into_iter().flatten() {
        recovers(&store, &gold, RECOVERY).await;
        let counts = || proxies.iter().map(|proxy| proxy.counts().connections);
        let before: Vec<_> = counts().collect();
        for proxy in &proxies {
            for command in ["EVALSHA", "EVAL", "CLUSTER"] {
                let lost = ReplyRule::next(u32::MAX, ReplyFault::Lost(Ending::Close));
                proxy.add_rule(lost.to_command(command));
            }
        }
        let seconds = under_load(&store, &gold).await;
        for (after, before) in counts().zip(before) {
            check(after - before, seconds, connections);
        }
        proxies.iter().for_each(FaultProxy::heal);
        recovers(&store, &gold, RECOVERY).await;
    }
}
