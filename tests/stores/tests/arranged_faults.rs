//! The faults of one server, on a node of a cluster and on a primary behind sentinels: calls for its keys fail in time and say whether
//! they may have charged, and are answered again when the server is back.
#![cfg(test)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use limiter_core::{Key, Plan, StoreError};
use limiter_lua::KeyLayout;
use limiter_store_tests::{
    DEADLINE, PATIENT, Servers, Stage, Store, UNHURRIED, bucket, check_lost_reply,
    faults_on_clients, key, layout, recovers_for, spend, spent,
};
use limiter_testkit::proxy::{Direction, Ending, FaultProxy, ReplyFault, ReplyRule, Toxic};
use limiter_testkit::server::{RedisCluster, RedisSentinel, RedisServer};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Sentinels and clusters take a second or two to make up their mind, and a crowded machine longer.
const RECOVERY: Duration = Duration::from_secs(20);

/// Makes a test of each function on a cluster and behind sentinels.
macro_rules! arranged {
    ($($fault:ident)*) => {
        mod on_a_cluster {
            use super::{Arranged, Stage, faults_on_clients};

            faults_on_clients! { $($fault)* }

            $(async fn $fault(stage: &Stage) {
                super::$fault(stage, Arranged::cluster(stage).await).await;
            })*
        }

        mod behind_sentinels {
            use super::{Arranged, Stage, faults_on_clients};

            faults_on_clients! { $($fault)* }

            $(async fn $fault(stage: &Stage) {
                super::$fault(stage, Arranged::sentinels(stage).await).await;
            })*
        }
    };
}

arranged! {
    server_absent_at_start
    stopped_for_seconds
    stopped_at_start
    blackholed_connection_is_replaced
    spoiled_replies_are_said_and_charged_once
    out_of_memory
    connections_that_are_cut_are_made_anew
}

/// Servers of one arrangement, each behind a proxy, and which of them has the key that the test is about.
struct Arranged {
    servers: Arc<dyn Servers>,
    proxies: Vec<FaultProxy>,
    address: String,
    layout: KeyLayout,
    user: Key,
    hit: usize,
}

impl Arranged {
    async fn cluster(stage: &Stage) -> Self {
        let node = stage
            .builder()
            .with_config("cluster-require-full-coverage no");
        let cluster = stage.watch(RedisCluster::start_with(node, 0).expect("a cluster"));
        let mut proxies = Vec::new();
        for node in cluster.nodes() {
            proxies.push(FaultProxy::start(node.addr()).await.expect("a proxy"));
        }
        let ports: Vec<_> = proxies.iter().map(|proxy| proxy.addr().port()).collect();
        cluster.announce_ports(&ports).expect("announced");
        let hosts: Vec<_> = ports
            .iter()
            .map(|port| format!("127.0.0.1:{port}"))
            .collect();
        let (layout, user) = (layout(), key("ann"));
        let slot = cluster.slot_of(layout.name(&user)).expect("a slot");
        let owner = cluster.primary_of(slot).expect("a primary").port();
        let hit = cluster.nodes().position(|node| node.port() == owner);
        Self {
            servers: cluster,
            proxies,
            address: format!("redis+cluster://{}", hosts.join(",")),
            layout,
            user,
            hit: hit.expect("one of them"),
        }
    }

    async fn sentinels(stage: &Stage) -> Self {
        let mut group = RedisSentinel::start(stage.flavour).expect("sentinels");
        let mut proxies = Vec::new();
        for node in group.data_nodes() {
            proxies.push(FaultProxy::start(node.addr()).await.expect("a proxy"));
        }
        let ports = [proxies[0].addr().port(), proxies[1].addr().port()];
        // On a thread of its own, for the sentinels now reach the servers through the proxies.
        let group = spawn_blocking(move || group.announce_ports(ports).map(|()| group));
        let group = stage.watch(group.await.expect("no panic").expect("announced"));
        let address = group.address();
        Self {
            servers: group,
            proxies,
            address,
            layout: layout(),
            user: key("ann"),
            hit: 0,
        }
    }

    fn store(&self, stage: &Stage, deadline: Duration) -> Store {
        stage.client.store(&self.address, &self.layout, deadline)
    }

    /// The server that has the key when all is well.
    fn server(&self) -> &RedisServer {
        self.servers.nodes()[self.hit]
    }

    fn proxy(&self) -> &FaultProxy {
        &self.proxies[self.hit]
    }

    async fn recovers(&self, store: &Store, plan: &Plan) {
        recovers_for(store, &self.user, plan, RECOVERY).await;
    }

    /// Makes calls for a while that fail, or are answered by another server that has taken over.
    async fn fails_or_another_answers(&self, store: &Store, plan: &Plan, time: Duration) -> u32 {
        let (began, mut failed) = (Instant::now(), 0);
        while began.elapsed() < time {
            if let Err(error) = spend(store, &self.user, plan).await {
                assert!(error.is_outage(), "{error:?}");
                failed += 1;
            }
            sleep(Duration::from_millis(5)).await;
        }
        failed
    }
}

async fn server_absent_at_start(stage: &Stage, all: Arranged) {
    for proxy in &all.proxies {
        proxy.refuse_connections().await;
    }
    let (store, gold) = (all.store(stage, DEADLINE), bucket(10));
    for _ in 0..20 {
        let error = spend(&store, &all.user, &gold).await;
        let error = error.expect_err("no server");
        assert!(error.is_outage() && !error.may_have_charged(), "{error:?}");
    }
    for proxy in &all.proxies {
        proxy.accept_connections().await.expect("listens again");
    }
    let other = bucket(7);
    recovers_for(&store, &key("bob"), &other, RECOVERY).await;
    assert_eq!(spent(&store, &all.user, &gold).await, 0);
}

async fn stopped_for_seconds(stage: &Stage, all: Arranged) {
    let (store, gold) = (all.store(stage, DEADLINE), bucket(100_000));
    all.recovers(&store, &gold).await;
    all.server().pause().expect("stops");
    let failed = all.fails_or_another_answers(&store, &gold, Duration::from_secs(2));
    assert!(failed.await > 0, "it was stopped");
    all.server().resume().expect("goes on");
    all.recovers(&store, &gold).await;
}

async fn stopped_at_start(stage: &Stage, all: Arranged) {
    let gold = bucket(100_000);
    all.server().pause().expect("stops");
    let store = all.store(stage, DEADLINE);
    let failed = all.fails_or_another_answers(&store, &gold, Duration::from_secs(1));
    assert!(failed.await > 0, "it was stopped");
    all.server().resume().expect("goes on");
    all.recovers(&store, &gold).await;
}

async fn blackholed_connection_is_replaced(stage: &Stage, all: Arranged) {
    let (store, gold) = (all.store(stage, DEADLINE), bucket(1000));
    all.recovers(&store, &gold).await;
    all.proxy().add(Direction::Both, Toxic::Blackhole);
    for _ in 0..5 {
        let error = spend(&store, &all.user, &gold).await;
        assert!(error.expect_err("a black hole").is_outage());
    }
    // New connections are well; those from before stay dead for ever.
    all.proxy().heal();
    all.recovers(&store, &gold).await;
}

async fn spoiled_replies_are_said_and_charged_once(stage: &Stage, all: Arranged) {
    let gold = bucket(1000);
    for deadline in [UNHURRIED, DEADLINE] {
        let store = all.store(stage, deadline);
        for fault in [
            ReplyFault::Lost(Ending::Hang),
            ReplyFault::Lost(Ending::Reset),
            ReplyFault::CutAfter { bytes: 5 },
            ReplyFault::Late(deadline * 3 / 2),
            ReplyFault::Garbage("+OK\r\n".into()),
            ReplyFault::Garbage("?!\r\n".into()),
        ] {
            all.recovers(&store, &gold).await;
            let before = spent(&store, &all.user, &gold).await;
            let rule = ReplyRule::next(1, fault.clone());
            all.proxy().add_rule(rule.to_command("EVALSHA"));
            let error = spend(&store, &all.user, &gold).await;
            let error = error.expect_err("no reply that fits");
            // Should the client send it again, it does so by then.
            sleep(Duration::from_millis(200)).await;
            all.proxy().heal();
            let patient = all.store(stage, PATIENT);
            let charged = spent(&patient, &all.user, &gold).await - before;
            check_lost_reply(deadline, &error, charged);
        }
    }
}

async fn out_of_memory(stage: &Stage, all: Arranged) {
    let (store, gold) = (all.store(stage, UNHURRIED), bucket(1000));
    all.recovers(&store, &gold).await;
    let before = spent(&store, &all.user, &gold).await;
    let server = all.server();
    server
        .config_set("maxmemory-policy", "noeviction")
        .expect("set");
    server.config_set("maxmemory", "1").expect("set");
    let error = spend(&store, &all.user, &gold).await;
    let error = error.expect_err("no memory");
    assert!(matches!(error, StoreError::Overloaded { .. }), "{error:?}");
    assert!(!error.may_have_charged());
    server.config_set("maxmemory", "0").expect("set");
    assert_eq!(spent(&store, &all.user, &gold).await, before);
    all.recovers(&store, &gold).await;
}

async fn connections_that_are_cut_are_made_anew(stage: &Stage, all: Arranged) {
    let (store, gold) = (all.store(stage, DEADLINE), bucket(1000));
    for _ in 0..3 {
        all.recovers(&store, &gold).await;
        // It has worked for longer than there is between two attempts to connect.
        sleep(Duration::from_millis(700)).await;
        for proxy in &all.proxies {
            proxy.reset_connections().await;
        }
        all.recovers(&store, &gold).await;
    }
}
