//! Stores on what the user has already: a connection manager, a cluster's connection, a client of fred's. They decide as others
//! do, a lost reply is charged once and said, and they work again when the connection does.
#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use limiter_fred::FredStore;
use limiter_lua::KeyLayout;
use limiter_redis::RedisStore;
use limiter_store_tests::{
    Client, DEADLINE, PATIENT, Stage, Store, UNHURRIED, bucket, check_lost_reply,
    faults_on_clients, fred_client, fred_cluster, key, layout, recovers, recovers_for,
    redis_cluster, redis_manager, spend, spent, timed,
};
use limiter_testkit::proxy::{Ending, FaultProxy, ReplyFault, ReplyRule};
use limiter_testkit::server::RedisCluster;
use tokio::time::sleep;

const RECOVERY: Duration = Duration::from_secs(5);

faults_on_clients! {
    given_connection_is_used_and_no_other
    lost_reply_on_a_given_connection_is_charged_once_and_said
    given_connection_comes_back_after_a_restart
    given_cluster_is_asked_node_by_node
    lost_reply_of_a_given_cluster_is_charged_once_and_said
}

/// Makes a store on the connection to one server that a user of the client would have, which reconnects by itself.
async fn given(client: Client, url: &str, layout: &KeyLayout, deadline: Duration) -> Store {
    let store: Store = match client {
        Client::Redis => {
            let store = RedisStore::on(redis_manager(url).await).with_layout(layout.clone());
            Arc::new(store.with_deadline(deadline).build().expect("a store"))
        }
        Client::Fred => {
            let store = FredStore::on(fred_client(url).await).with_layout(layout.clone());
            Arc::new(store.with_deadline(deadline).build().expect("a store"))
        }
    };
    timed(store, deadline)
}

/// The same on a cluster.
async fn given_cluster(
    client: Client,
    ports: &[u16],
    layout: &KeyLayout,
    deadline: Duration,
) -> Store {
    let store: Store = match client {
        Client::Redis => {
            let store = RedisStore::on(redis_cluster(ports).await).with_layout(layout.clone());
            Arc::new(store.with_deadline(deadline).build().expect("a store"))
        }
        Client::Fred => {
            let store = FredStore::on(fred_cluster(ports).await).with_layout(layout.clone());
            Arc::new(store.with_deadline(deadline).build().expect("a store"))
        }
    };
    timed(store, deadline)
}

async fn given_connection_is_used_and_no_other(stage: &Stage) {
    let server = stage.server();
    let store = given(stage.client, &server.url(), &layout(), PATIENT).await;
    let connections = || {
        let stats = server.info("stats").expect("stats");
        stats["total_connections_received"].clone()
    };
    let (gold, before) = (bucket(10), connections());
    for remaining in (5..10).rev() {
        let said = spend(&store, &key("ann"), &gold).await;
        assert_eq!(said.expect("an answer").plans[0].remaining, remaining);
    }
    assert_eq!(connections(), before);
}

async fn lost_reply_on_a_given_connection_is_charged_once_and_said(stage: &Stage) {
    let (server, proxy) = stage.proxied().await;
    let address = server.url_at(proxy.addr());
    for deadline in [UNHURRIED, DEADLINE] {
        let store = given(stage.client, &address, &layout(), deadline).await;
        loses_replies(&store, deadline, &[&proxy]).await;
    }
}

async fn given_connection_comes_back_after_a_restart(stage: &Stage) {
    let server = stage.server();
    let gold = bucket(1000);
    let store = given(stage.client, &server.url(), &layout(), DEADLINE).await;
    recovers(&store, &gold, RECOVERY).await;
    server.kill();
    let error = spend(&store, &key("ann"), &gold).await;
    assert!(error.expect_err("killed").is_outage());
    server.restart().expect("starts again");
    recovers(&store, &gold, RECOVERY).await;
}

async fn given_cluster_is_asked_node_by_node(stage: &Stage) {
    let cluster = stage.cluster();
    let ports: Vec<_> = cluster.nodes().map(|node| node.port()).collect();
    let (layout, gold) = (layout(), bucket(10));
    let store = given_cluster(stage.client, &ports, &layout, PATIENT).await;
    for nth in 0..30 {
        let said = spend(&store, &key(&format!("user {nth}")), &gold).await;
        assert_eq!(said.expect("an answer").plans[0].remaining, 9);
    }
    for node in cluster.nodes() {
        assert!(!node.keys().expect("keys").is_empty());
    }
    // A slot that has moved: the connection learns of it. Known limit of fred: the call that is told so fails, in time, if the
    // user's client was made to follow redirections; the next one is answered.
    let user = key("user 0");
    let slot = cluster.slot_of(layout.name(&user)).expect("a slot");
    let from = cluster.primary_of(slot).expect("a primary").port();
    let to = cluster.nodes().find(|node| node.port() != from);
    let moved = cluster.migrate_slot(slot, to.expect("another"));
    moved.expect("moved");
    let mut said = spend(&store, &user, &gold).await;
    if stage.client == Client::Fred && said.is_err() {
        said = spend(&store, &user, &gold).await;
    }
    assert_eq!(said.expect("an answer").plans[0].remaining, 8);
}

async fn lost_reply_of_a_given_cluster_is_charged_once_and_said(stage: &Stage) {
    let (cluster, proxies) = proxied_cluster(stage).await;
    let ports: Vec<_> = proxies.iter().map(|proxy| proxy.addr().port()).collect();
    cluster.announce_ports(&ports).expect("announced");
    let proxies: Vec<_> = proxies.iter().collect();
    for deadline in [UNHURRIED, DEADLINE] {
        let store = given_cluster(stage.client, &ports, &layout(), deadline).await;
        loses_replies(&store, deadline, &proxies).await;
    }
}

async fn proxied_cluster(stage: &Stage) -> (Arc<RedisCluster>, Vec<FaultProxy>) {
    let cluster = stage.cluster();
    let mut proxies = Vec::new();
    for node in cluster.nodes() {
        proxies.push(FaultProxy::start(node.addr()).await.expect("a proxy"));
    }
    (cluster, proxies)
}

/// Loses one reply after the script ran, in each way in which a reply can be lost.
async fn loses_replies(store: &Store, deadline: Duration, proxies: &[&FaultProxy]) {
    let gold = bucket(1000);
    for ending in [Ending::Hang, Ending::Close, Ending::Reset] {
        let user = key(&format!("{ending:?} {deadline:?}"));
        // From here on the node of this user is connected and knows the script.
        recovers_for(store, &user, &gold, RECOVERY).await;
        let before = spent(store, &user, &gold).await;
        for proxy in proxies {
            proxy.add_rule(ReplyRule::next(1, ReplyFault::Lost(ending)).to_command("EVALSHA"));
        }
        let error = spend(store, &user, &gold).await.expect_err("no reply");
        // Should the client send it again, it does so by then.
        sleep(Duration::from_millis(300)).await;
        for proxy in proxies {
            proxy.heal();
            // A connection that hangs is the user's to replace.
            proxy.reset_connections().await;
        }
        let charged = spent(store, &user, &gold).await - before;
        check_lost_reply(deadline, &error, charged);
    }
}
