//! One host of a cluster, or one sentinel, that is absent, stopped, unreachable or slow: the keys of the others are served as if
//! nothing were wrong, from the start and in operation.
#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use limiter_core::{Key, Plan};
use limiter_lua::{Connections, KeyLayout};
use limiter_store_tests::{
    BlackHole, DEADLINE, PATIENT, Stage, Store, bucket, faults_on_clients, key, layout, recovers,
    recovers_for, spend,
};
use limiter_testkit::proxy::{Direction, FaultProxy, Toxic};
use limiter_testkit::server::{PortLease, RedisCluster, RedisSentinel, RedisServer};
use tokio::time::{Instant, sleep, timeout};

/// So long after the first call at the latest, calls for keys of healthy hosts are answered.
const AT_START: Duration = Duration::from_secs(1);
const RECOVERY: Duration = Duration::from_secs(5);
const USERS: usize = 24;

faults_on_clients! {
    cluster_with_an_unreachable_or_absent_seed_is_found_through_the_others
    cluster_with_one_node_stopped_serves_the_keys_of_the_others
    cluster_with_a_slow_node_serves_the_keys_of_the_others_at_once
    node_that_falls_silent_costs_the_keys_of_others_nothing
    primary_is_found_though_one_sentinel_is_stopped_unreachable_or_absent
    cluster_is_found_though_one_seed_knows_nothing_of_it
    cluster_whose_slots_are_partly_on_an_unreachable_host_serves_the_others
    primary_is_found_though_two_of_five_sentinels_are_dead
    primary_is_found_though_a_sentinel_is_slow
    connections_behind_sentinels_are_made_side_by_side
    cluster_that_refuses_the_user_is_told_though_a_seed_is_unreachable
    primary_that_refuses_the_user_is_told_though_a_sentinel_is_unreachable
}

/// Users of a store, by whether their keys are on a node of a cluster.
struct Users {
    of_node: Vec<Key>,
    of_others: Vec<Key>,
}

impl Users {
    fn of(cluster: &RedisCluster, node: &RedisServer, layout: &KeyLayout) -> Self {
        let is_of_node = |user: &Key| {
            let slot = cluster.slot_of(layout.name(user)).expect("a slot");
            cluster.primary_of(slot).expect("a primary").port() == node.port()
        };
        let users = (0..USERS).map(|nth| key(&format!("user {nth}")));
        let (of_node, of_others): (Vec<_>, Vec<_>) = users.partition(is_of_node);
        assert!(!of_node.is_empty() && of_others.len() > USERS / 3);
        Self { of_node, of_others }
    }
}

/// Calls for each user until all have been answered; no longer than [`AT_START`].
async fn all_are_answered(store: &Store, users: &[Key], plan: &Plan, what: &str) {
    let (began, mut answered) = (Instant::now(), 0);
    let answers = async {
        for user in users {
            while let Err(error) = spend(store, user, plan).await {
                assert!(error.is_outage(), "{what}: {error:?}");
                sleep(Duration::from_millis(2)).await;
            }
            answered += 1;
        }
    };
    let in_time = timeout(AT_START, answers).await;
    assert!(
        in_time.is_ok(),
        "{what}: {answered} of {} users answered in {:?}",
        users.len(),
        began.elapsed()
    );
}

/// Puts `host` among `hosts` at each place in turn.
fn at_each_place(hosts: &[String], host: &str) -> Vec<Vec<String>> {
    let with = |place| {
        let mut hosts = hosts.to_vec();
        hosts.insert(place, host.to_owned());
        hosts
    };
    (0..=hosts.len()).map(with).collect()
}

/// A cluster whose nodes go on serving their slots when others are gone.
fn cluster(stage: &Stage) -> Arc<RedisCluster> {
    let node = stage
        .builder()
        .with_config("cluster-require-full-coverage no");
    stage.watch(RedisCluster::start_with(node, 0).expect("a cluster"))
}

fn hosts_of<'a>(servers: impl IntoIterator<Item = &'a RedisServer>) -> Vec<String> {
    let servers = servers.into_iter();
    servers.map(|server| server.addr().to_string()).collect()
}

async fn cluster_with_an_unreachable_or_absent_seed_is_found_through_the_others(stage: &Stage) {
    let cluster = cluster(stage);
    let (hole, nobody) = (BlackHole::open().await, PortLease::acquire());
    let nobody = nobody.expect("a port").addr();
    let seeds = hosts_of(cluster.nodes());
    let users: Vec<_> = (0..USERS).map(|nth| key(&format!("user {nth}"))).collect();
    let gold = bucket(1000);
    for (host, what) in [(hole.addr(), "unreachable"), (nobody, "absent")] {
        for seeds in at_each_place(&seeds, &host.to_string()) {
            let address = format!("redis+cluster://{}", seeds.join(","));
            let store = stage.client.store(&address, &layout(), DEADLINE);
            all_are_answered(&store, &users, &gold, &format!("{what}: {address}")).await;
        }
    }
}

async fn cluster_with_one_node_stopped_serves_the_keys_of_the_others(stage: &Stage) {
    let cluster = cluster(stage);
    let gold = bucket(1000);
    for node in cluster.nodes() {
        let layout = layout();
        let users = Users::of(&cluster, node, &layout);
        node.pause().expect("stops");
        let store = stage.client.store(&cluster.address(), &layout, DEADLINE);
        all_are_answered(&store, &users.of_others, &gold, "stopped").await;
        node.resume().expect("goes on");
        recovers_for(&store, &users.of_node[0], &gold, RECOVERY).await;
        // A node that comes back says for a while that the cluster is down.
        tokio::task::block_in_place(|| cluster.wait_until_ok()).expect("all is well again");
    }
}

/// Every node is named, and one answers, but late.
async fn cluster_with_a_slow_node_serves_the_keys_of_the_others_at_once(stage: &Stage) {
    let (cluster, proxies) = proxied_cluster(stage).await;
    let address = format!(
        "redis+cluster://{}",
        proxies
            .iter()
            .map(|proxy| proxy.addr().to_string())
            .collect::<Vec<_>>()
            .join(",")
    );
    let gold = bucket(1000);
    for (node, proxy) in cluster.nodes().zip(&proxies) {
        let layout = layout();
        let users = Users::of(&cluster, node, &layout);
        proxy.add(
            Direction::Replies,
            Toxic::Latency {
                delay: Duration::from_millis(400),
                jitter: Duration::ZERO,
            },
        );
        let store = stage.client.store(&address, &layout, DEADLINE);
        all_are_answered(&store, &users.of_others, &gold, "slow").await;
        proxy.heal();
        recovers_for(&store, &users.of_node[0], &gold, RECOVERY).await;
    }
}

async fn proxied_cluster(stage: &Stage) -> (Arc<RedisCluster>, Vec<FaultProxy>) {
    let cluster = cluster(stage);
    let mut proxies = Vec::new();
    for node in cluster.nodes() {
        proxies.push(FaultProxy::start(node.addr()).await.expect("a proxy"));
    }
    let ports: Vec<_> = proxies.iter().map(|proxy| proxy.addr().port()).collect();
    cluster.announce_ports(&ports).expect("announced");
    (cluster, proxies)
}

/// Calls for seconds for a key of a silent node alone, then for those of the others: none of these finds no connection. Returns how
/// many failed.
async fn others_pay_nothing(store: &Store, users: &Users, gold: &Plan) -> usize {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        let error = spend(store, &users.of_node[0], gold).await;
        assert!(error.expect_err("a silent node").is_outage());
        sleep(Duration::from_millis(5)).await;
    }
    let mut failed = Vec::new();
    for _ in 0..20 {
        for user in &users.of_others {
            failed.extend(spend(store, user, gold).await.err());
        }
    }
    // On a crowded machine a reply may come late. A call that was not even sent found no connection.
    let unsent = failed.iter().filter(|error| !error.may_have_charged());
    assert_eq!(unsent.count(), 0, "{failed:?}");
    failed.len()
}

/// For seconds only keys of the silent node are asked for: that must not cost the connections to the others.
async fn node_that_falls_silent_costs_the_keys_of_others_nothing(stage: &Stage) {
    let cluster = cluster(stage);
    let (layout, gold) = (layout(), bucket(100_000));
    let store = stage.client.store(&cluster.address(), &layout, DEADLINE);
    for node in cluster.nodes() {
        let users = Users::of(&cluster, node, &layout);
        for user in users.of_node.iter().chain(&users.of_others) {
            recovers_for(&store, user, &gold, RECOVERY).await;
        }
        node.pause().expect("stops");
        let failed = others_pay_nothing(&store, &users, &gold).await;
        node.resume().expect("goes on");
        assert!(failed <= users.of_others.len(), "{failed} calls failed");
        // A node that comes back says for a while that the cluster is down.
        tokio::task::block_in_place(|| cluster.wait_until_ok()).expect("all is well again");
        recovers_for(&store, &users.of_node[0], &gold, RECOVERY).await;
    }
}

/// The seed has left the cluster and kept a slot. Whichever seed is asked first, all the others know better.
async fn cluster_is_found_though_one_seed_knows_nothing_of_it(stage: &Stage) {
    const TIMES: usize = 3;
    let cluster = cluster(stage);
    let alone = stage.start(stage.builder().with_config("cluster-enabled yes"));
    let slot = ["CLUSTER", "ADDSLOTS", "0"];
    alone.command(&slot).expect("a slot");
    let users: Vec<_> = (0..USERS).map(|nth| key(&format!("user {nth}"))).collect();
    let gold = bucket(1000);
    for seeds in at_each_place(&hosts_of(cluster.nodes()), &alone.addr().to_string()) {
        let address = format!("redis+cluster://{}", seeds.join(","));
        for _ in 0..TIMES {
            let store = stage.client.store(&address, &layout(), DEADLINE);
            all_are_answered(&store, &users, &gold, &address).await;
        }
    }
}

/// The host that serves a third of the slots is cut off from the store alone, in operation and at the start.
async fn cluster_whose_slots_are_partly_on_an_unreachable_host_serves_the_others(stage: &Stage) {
    let cluster = cluster(stage);
    let gold = bucket(100_000);
    for (nth, node) in cluster.nodes().enumerate() {
        let (hole, layout) = (BlackHole::open().await, layout());
        let users = Users::of(&cluster, node, &layout);
        let proxy = FaultProxy::start(node.addr()).await.expect("a proxy");
        let announce = |port| {
            let mut ports: Vec<_> = cluster.nodes().map(RedisServer::port).collect();
            ports[nth] = port;
            tokio::task::block_in_place(|| cluster.announce_ports(&ports)).expect("announced");
        };
        announce(proxy.addr().port());
        let store = stage.client.store(&cluster.address(), &layout, DEADLINE);
        for user in users.of_node.iter().chain(&users.of_others) {
            recovers_for(&store, user, &gold, RECOVERY).await;
        }
        proxy.add(Direction::Both, Toxic::Blackhole);
        announce(hole.addr().port());
        let failed = others_pay_nothing(&store, &users, &gold).await;
        assert!(failed <= users.of_others.len(), "{failed} calls failed");
        let healthy = cluster.nodes().filter(|other| other.port() != node.port());
        for seeds in at_each_place(&hosts_of(healthy), &hole.addr().to_string()) {
            let address = format!("redis+cluster://{}", seeds.join(","));
            let store = stage.client.store(&address, &layout, DEADLINE);
            all_are_answered(&store, &users.of_others, &gold, &address).await;
        }
        announce(node.port());
    }
}

async fn primary_is_found_though_one_sentinel_is_stopped_unreachable_or_absent(stage: &Stage) {
    let group = RedisSentinel::start(stage.flavour).expect("sentinels");
    let group = stage.watch(group);
    let gold = bucket(1000);
    let (hole, nobody) = (BlackHole::open().await, PortLease::acquire());
    let nobody = nobody.expect("a port").addr();
    let sentinels = hosts_of(group.sentinels());
    let ann = [key("ann")];
    let address = |hosts: &[String]| {
        format!(
            "redis+sentinel://{}/{}",
            hosts.join(","),
            group.master_name()
        )
    };
    for (host, what) in [(hole.addr(), "unreachable"), (nobody, "absent")] {
        for sentinels in at_each_place(&sentinels, &host.to_string()) {
            let address = address(&sentinels);
            let store = stage.client.store(&address, &layout(), DEADLINE);
            all_are_answered(&store, &ann, &gold, &format!("{what}: {address}")).await;
        }
    }
    for sentinel in group.sentinels() {
        sentinel.pause().expect("stops");
        let store = stage
            .client
            .store(&address(&sentinels), &layout(), DEADLINE);
        all_are_answered(&store, &ann, &gold, "stopped").await;
        sentinel.resume().expect("goes on");
    }
}

/// One is a black hole, and one is absent. That is the most that leaves a majority.
async fn primary_is_found_though_two_of_five_sentinels_are_dead(stage: &Stage) {
    let group = stage.watch(RedisSentinel::start(stage.flavour).expect("sentinels"));
    let (hole, nobody) = (BlackHole::open().await, PortLease::acquire());
    let nobody = nobody.expect("a port").addr().to_string();
    let gold = bucket(1000);
    for four in at_each_place(&hosts_of(group.sentinels()), &hole.addr().to_string()) {
        for five in at_each_place(&four, &nobody) {
            let address = format!(
                "redis+sentinel://{}/{}",
                five.join(","),
                group.master_name()
            );
            let store = stage.client.store(&address, &layout(), DEADLINE);
            all_are_answered(&store, &[key("ann")], &gold, &address).await;
        }
    }
}

async fn primary_is_found_though_a_sentinel_is_slow(stage: &Stage) {
    let group = RedisSentinel::start(stage.flavour).expect("sentinels");
    let group = stage.watch(group);
    let gold = bucket(1000);
    let slow = FaultProxy::start(group.sentinels()[0].addr()).await;
    let slow = slow.expect("a proxy");
    slow.add(
        Direction::Replies,
        Toxic::Latency {
            delay: Duration::from_millis(700),
            jitter: Duration::ZERO,
        },
    );
    let others = hosts_of(&group.sentinels()[1..]);
    for sentinels in at_each_place(&others, &slow.addr().to_string()) {
        let address = format!(
            "redis+sentinel://{}/{}",
            sentinels.join(","),
            group.master_name()
        );
        let store = stage.client.store(&address, &layout(), DEADLINE);
        all_are_answered(&store, &[key("ann")], &gold, &address).await;
    }
    let patient = stage.client.store(&group.address(), &layout(), PATIENT);
    recovers(&patient, &gold, RECOVERY).await;
}

/// The primary is slow to say anything, which each connection waits for: one after another they would take seconds.
async fn connections_behind_sentinels_are_made_side_by_side(stage: &Stage) {
    const CONNECTIONS: u8 = 16;
    const AFTER_ONE_ANOTHER: Duration = Duration::from_millis(200);
    let mut group = RedisSentinel::start(stage.flavour).expect("sentinels");
    let mut proxies = Vec::new();
    for node in group.data_nodes() {
        proxies.push(FaultProxy::start(node.addr()).await.expect("a proxy"));
    }
    let ports = [proxies[0].addr().port(), proxies[1].addr().port()];
    let group = tokio::task::spawn_blocking(move || {
        group.announce_ports(ports).expect("announced");
        group
    });
    let group = stage.watch(group.await.expect("no panic"));
    proxies[0].add(
        Direction::Replies,
        Toxic::Latency {
            delay: AFTER_ONE_ANOTHER,
            jitter: Duration::ZERO,
        },
    );
    let many = Connections::new(CONNECTIONS).expect("some");
    let before = proxies[0].counts().connections;
    let store = stage
        .client
        .pooled_store(&group.address(), &layout(), DEADLINE, many);
    let all_begun = async {
        while proxies[0].counts().connections - before < CONNECTIONS.into() {
            let _ = spend(&store, &key("ann"), &bucket(10)).await;
        }
    };
    let in_time = timeout(AFTER_ONE_ANOTHER * u32::from(CONNECTIONS) / 4, all_begun).await;
    let begun = proxies[0].counts().connections - before;
    assert!(in_time.is_ok(), "{begun} connections begun");
}

/// Checks that a store tells that it is set up wrongly: within [`AT_START`], to every call from then on, and to the first one that
/// has the time to wait for it.
async fn refusal_is_told(stage: &Stage, address: &str) {
    let (ann, gold) = (key("ann"), bucket(10));
    let store = stage.client.store(address, &layout(), DEADLINE);
    let began = Instant::now();
    while spend(&store, &ann, &gold)
        .await
        .expect_err("a wrong user")
        .is_outage()
    {
        assert!(began.elapsed() < AT_START, "{address}: it is not told");
        sleep(Duration::from_millis(2)).await;
    }
    while began.elapsed() < 3 * AT_START {
        let error = spend(&store, &ann, &gold).await.expect_err("a wrong user");
        assert!(!error.is_outage(), "{address}: {error:?}");
        sleep(Duration::from_millis(2)).await;
    }
    let patient = stage.client.store(address, &layout(), PATIENT);
    let (began, error) = (Instant::now(), spend(&patient, &ann, &gold).await);
    assert!(!error.expect_err("a wrong user").is_outage());
    // Connecting may take as long as the deadline.
    assert!(began.elapsed() < PATIENT / 2, "it is told late");
}

async fn cluster_that_refuses_the_user_is_told_though_a_seed_is_unreachable(stage: &Stage) {
    let (cluster, hole) = (cluster(stage), BlackHole::open().await);
    let seeds = hosts_of(cluster.nodes());
    for seeds in at_each_place(&seeds, &hole.addr().to_string()) {
        let address = format!("redis+cluster://nobody:wrong@{}", seeds.join(","));
        refusal_is_told(stage, &address).await;
    }
}

async fn primary_that_refuses_the_user_is_told_though_a_sentinel_is_unreachable(stage: &Stage) {
    let group = stage.watch(RedisSentinel::start(stage.flavour).expect("sentinels"));
    let (sentinels, hole) = (hosts_of(group.sentinels()), BlackHole::open().await);
    for sentinels in at_each_place(&sentinels[1..], &hole.addr().to_string()) {
        let (sentinels, name) = (sentinels.join(","), group.master_name());
        let address = format!("redis+sentinel://nobody:wrong@{sentinels}/{name}");
        refusal_is_told(stage, &address).await;
    }
}
