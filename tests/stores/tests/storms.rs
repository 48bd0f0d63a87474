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
use limiter_testkit::server::RedisServer;
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
    server_that_wants_a_password_is_called_on_twice_a_second
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

fn check(connected: u64, seconds: u64, connections: u64) {
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

async fn server_that_wants_a_password_is_called_on_twice_a_second(stage: &Stage) {
    let server = stage.start(stage.builder().with_password("secret"));
    let address = format!("redis://{}", server.addr());
    for (store, connections) in stores(stage, &address) {
        let before = received(&server);
        let seconds = under_load(&store, &bucket(10)).await;
        check(received(&server) - before, seconds, connections);
    }
}
