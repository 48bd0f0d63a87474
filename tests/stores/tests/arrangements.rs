//! Clusters and sentinels that fail over, move slots and lose replies.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "this is a test"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use limiter_core::{Cost, Plan};
use limiter_store_tests::{
    BEHIND_SENTINELS, Crowd, DEADLINE, IN_A_CLUSTER, PATIENT, Stage, Store, UNHURRIED, bucket,
    check_lost_reply, faults_on_clients, key, layout, plan, recovers, recovers_for, spend, spent,
};
use limiter_testkit::proxy::{Ending, FaultProxy, ReplyFault, ReplyRule};
use limiter_testkit::rig::{PERMISSIONS, acl_user};
use limiter_testkit::server::{RedisCluster, RedisSentinel, RedisServer};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

const FAIL_OVER: Duration = Duration::from_secs(20);
/// A thread that the machine keeps from a processor for longer than that, of 50 ms, may have no
/// time left for a call.
const LATE_TURN: Duration = Duration::from_millis(20);

faults_on_clients! {
    swallowed_reply_of_a_cluster_is_charged_once_and_said
    cluster_node_killed_others_answer_and_its_replica_takes_over
    slot_migration_under_load
    user_of_a_cluster_with_the_published_permissions
    script_flush_on_every_cluster_node
    user_behind_sentinels_with_the_published_permissions
    sentinel_fail_over
    swallowed_reply_behind_sentinel_is_charged_once_and_said
}

/// Returns the line of a user with the permissions of the READMEs, and those `besides`.
fn user(besides: &str) -> String {
    acl_user("limiter", "*", &format!("{PERMISSIONS} {besides}"))
}

/// Returns the address of a cluster, as both adapters take it.
fn cluster_address(ports: impl IntoIterator<Item = u16>) -> String {
    let hosts: Vec<_> = ports
        .into_iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    format!("redis+cluster://{}", hosts.join(","))
}

async fn swallowed_reply_of_a_cluster_is_charged_once_and_said(stage: &Stage) {
    let cluster = stage.cluster();
    let mut proxies = Vec::new();
    for node in cluster.nodes() {
        proxies.push(FaultProxy::start(node.addr()).await.expect("a proxy"));
    }
    let ports: Vec<_> = proxies.iter().map(|proxy| proxy.addr().port()).collect();
    cluster.announce_ports(&ports).expect("announced");
    let (layout, gold) = (layout(), bucket(1000));
    let address = cluster_address(ports);
    let store = |deadline| stage.client.store(&address, &layout, deadline);
    let stores = [(&store(UNHURRIED), UNHURRIED), (&store(DEADLINE), DEADLINE)];
    let proxies: Vec<_> = proxies.iter().collect();
    swallowed_reply_is_charged_once_and_said(stores, &proxies, &gold).await;
}

async fn cluster_node_killed_others_answer_and_its_replica_takes_over(stage: &Stage) {
    let cluster = RedisCluster::start_with(stage.builder(), 1);
    let cluster = stage.watch(cluster.expect("a cluster"));
    let (layout, gold) = (layout(), bucket(1000));
    let store = stage.client.store(&cluster.address(), &layout, DEADLINE);
    recovers(&store, &gold, FAIL_OVER).await;
    let users: Vec<_> = (0..60).map(|nth| key(&format!("user {nth}"))).collect();
    let slots: Vec<_> = users
        .iter()
        .map(|user| cluster.slot_of(layout.name(user)).expect("a slot"))
        .collect();
    let patient = stage.client.store(&cluster.address(), &layout, PATIENT);
    for user in &users {
        let said = spend(&patient, user, &gold).await;
        assert!(said.expect("a healthy cluster").admitted);
        assert_eq!(spent(&store, user, &gold).await, 1);
    }
    let victim = cluster.primary_of(slots[0]).expect("a primary");
    let hit: Vec<_> = slots
        .iter()
        .map(|slot| cluster.primary_of(*slot).expect("a primary").port() == victim.port())
        .collect();
    victim.kill();
    let (mut others_ok, mut others) = (0, 0);
    for (user, hit) in users.iter().zip(&hit) {
        let said = spend(&store, user, &gold).await;
        if !hit {
            others += 1;
            others_ok += u32::from(said.is_ok());
        }
    }
    assert_eq!(
        others_ok, others,
        "calls for keys of healthy nodes answered"
    );
    let began = Instant::now();
    for (user, _) in users.iter().zip(&hit).filter(|(_, hit)| **hit) {
        while let Err(error) = spend(&store, user, &gold).await {
            assert!(began.elapsed() < FAIL_OVER, "no fail-over: {error:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// A plan with a name of its own, for calls that are not to be counted.
fn bucket_of_others() -> Plan {
    plan("others", "1/h burst 10")
}

/// With the deadline that users have, of both clients. A call that is late is one that the machine
/// has kept waiting.
async fn slot_migration_under_load(stage: &Stage) {
    const CAPACITY: u32 = 1_000_000;
    const DECISIONS_PER_SLOT: u32 = 125;
    let cluster = stage.cluster();
    let (layout, gold) = (layout(), bucket(CAPACITY));
    let store = stage.client.store(&cluster.address(), &layout, DEADLINE);
    let users: Vec<_> = (0..8).map(|nth| key(&format!("user {nth}"))).collect();
    for user in &users {
        // Every node is connected then.
        recovers_for(&store, user, &bucket_of_others(), FAIL_OVER).await;
    }
    let slots: Vec<_> = users
        .iter()
        .map(|user| cluster.slot_of(layout.name(user)).expect("a slot"))
        .collect();
    let (stop, decided) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU32::new(0)),
    );
    let crowd = Arc::new(Crowd::watch(cluster.nodes()));
    let load: Vec<_> = users
        .iter()
        .map(|user| {
            let (store, gold, user) = (store.clone(), gold.clone(), user.clone());
            let (stop, decided) = (stop.clone(), decided.clone());
            let crowd = Arc::clone(&crowd);
            tokio::spawn(async move {
                let (mut mine, mut late) = (0, 0);
                while !stop.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    let said = store
                        .try_acquire(&user, std::slice::from_ref(&gold), Cost::ONE)
                        .await;
                    let said = match said {
                        // What was not even sent found nobody to send it to.
                        Err(error) if error.may_have_charged() => {
                            let ended = Instant::now();
                            let waited = crowd.waited(began, ended).await;
                            let took = ended - began;
                            assert!(waited > LATE_TURN, "{took:?}, {waited:?}: {error:?}");
                            late += 1;
                            continue;
                        }
                        said => said.expect("a decision"),
                    };
                    mine += 1;
                    let (remaining, exact) = (said.plans[0].remaining, CAPACITY - mine);
                    let sound = (exact - late..=exact).contains(&remaining);
                    assert!(sound, "{remaining} left: state was lost or charged twice");
                    decided.fetch_add(1, Ordering::Relaxed);
                    // The load itself is not to be what keeps calls waiting.
                    sleep(Duration::from_millis(1)).await;
                }
                late
            })
        })
        .collect();
    let (moving, counted) = (cluster.clone(), decided.clone());
    spawn_blocking(move || {
        for slot in slots {
            let before = counted.load(Ordering::Relaxed);
            let from = moving.primary_of(slot).expect("a primary").port();
            let to = moving
                .nodes()
                .find(|node| node.port() != from)
                .expect("another");
            let migration = moving.begin_migration(slot, to).expect("begins");
            std::thread::sleep(Duration::from_millis(50));
            while migration.move_keys(1).expect("moves") > 0 {
                std::thread::sleep(Duration::from_millis(20));
            }
            let began = Instant::now();
            while counted.load(Ordering::Relaxed) - before < DECISIONS_PER_SLOT {
                assert!(began.elapsed() < FAIL_OVER, "hardly a decision");
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(50));
            migration.finish().expect("finishes");
        }
    })
    .await
    .expect("the migration works");
    stop.store(true, Ordering::Relaxed);
    let mut late = 0;
    for task in load {
        late += task.await.expect("no failed decision");
    }
    eprintln!("{late} calls were late with the machine");
}

/// What a cluster needs besides: `+cluster|slots`, and `+asking` to follow a slot that moves.
async fn user_of_a_cluster_with_the_published_permissions(stage: &Stage) {
    let nodes = stage.builder().with_acl_user(user(IN_A_CLUSTER));
    let cluster = RedisCluster::start_with(nodes, 0);
    let cluster = stage.watch(cluster.expect("a cluster"));
    let address = cluster.address().replace("://", "://limiter:secret@");
    let (layout, gold) = (layout(), bucket(10));
    let store = stage.client.store(&address, &layout, PATIENT);
    recovers(&store, &gold, FAIL_OVER).await;
    for nth in 0..30 {
        let user = key(&format!("user {nth}"));
        let said = store
            .try_acquire(&user, std::slice::from_ref(&gold), Cost::ONE)
            .await
            .expect("an answer");
        assert_eq!(said.plans[0].remaining, 9);
    }
    // A key that is on its way: the node that it left says ASK, and ASKING goes before the call.
    let user = key("user 0");
    let slot = cluster.slot_of(layout.name(&user)).expect("a slot");
    let from = cluster.primary_of(slot).expect("a primary").port();
    let to = cluster.nodes().find(|node| node.port() != from);
    let migration = cluster.begin_migration(slot, to.expect("another"));
    let migration = migration.expect("begins");
    while migration.move_keys(1).expect("moves") > 0 {}
    let said = store
        .try_acquire(&user, std::slice::from_ref(&gold), Cost::ONE)
        .await
        .expect("an answer");
    assert_eq!(said.plans[0].remaining, 8);
    migration.finish().expect("finishes");
}

/// What servers behind sentinels need besides: `+role`. The sentinels themselves know no user.
async fn user_behind_sentinels_with_the_published_permissions(stage: &Stage) {
    let nodes = stage
        .builder()
        .with_password("another")
        .with_acl_user(user(BEHIND_SENTINELS));
    let sentinel = RedisSentinel::start_with(nodes);
    let sentinel = stage.watch(sentinel.expect("sentinels"));
    let address = sentinel.address().replace("://", "://limiter:secret@");
    let store = stage.client.store(&address, &layout(), PATIENT);
    let plans = [bucket(10)];
    for remaining in (5..10).rev() {
        let said = store.try_acquire(&key("ann"), &plans, Cost::ONE).await;
        assert_eq!(said.expect("an answer").plans[0].remaining, remaining);
    }
}

async fn script_flush_on_every_cluster_node(stage: &Stage) {
    let cluster = stage.cluster();
    let gold = bucket(100);
    let store = stage.client.store(&cluster.address(), &layout(), PATIENT);
    for nth in 1..=30 {
        for node in cluster.nodes() {
            node.script_flush().expect("flushes");
        }
        for user in 0..6 {
            let user = key(&format!("user {user}"));
            let said = store
                .try_acquire(&user, std::slice::from_ref(&gold), Cost::ONE)
                .await
                .expect("an answer");
            assert_eq!(said.plans[0].remaining, 100 - nth);
        }
    }
}

async fn sentinel_fail_over(stage: &Stage) {
    let sentinel = stage.watch(RedisSentinel::start(stage.flavour).expect("sentinels"));
    sentinel.wait_until_ok().expect("healthy");
    let (layout, gold) = (layout(), bucket(1000));
    let store = stage.client.store(&sentinel.address(), &layout, DEADLINE);
    recovers(&store, &gold, FAIL_OVER).await;
    let patient = stage.client.store(&sentinel.address(), &layout, PATIENT);
    for _ in 0..10 {
        let said = spend(&patient, &key("ann"), &gold).await;
        assert!(said.expect("healthy").admitted);
    }
    sentinel.wait_until_replicated().expect("replicated");
    let old = sentinel.primary().expect("a primary");
    old.kill();
    let took = recovers(&store, &gold, FAIL_OVER).await;
    eprintln!(
        "{:?} came back {took:?} after the primary was killed",
        stage.client
    );
    assert_eq!(spent(&store, &key("ann"), &gold).await, 10);
    let other = sentinel.wait_for_other_primary_than(old);
    assert!(other.is_ok_and(|other| !other.keys().expect("keys").is_empty()));
}

async fn swallowed_reply_behind_sentinel_is_charged_once_and_said(stage: &Stage) {
    let mut sentinel = RedisSentinel::start(stage.flavour).expect("sentinels");
    let [primary, replica] = sentinel.data_nodes().each_ref().map(RedisServer::addr);
    let proxy = FaultProxy::start(primary).await.expect("a proxy");
    let standby = FaultProxy::start(replica).await.expect("a proxy");
    let ports = [&proxy, &standby].map(|proxy| proxy.addr().port());
    // On a thread of its own, for the sentinels now reach the servers through the proxies.
    let sentinel = spawn_blocking(move || sentinel.announce_ports(ports).map(|()| sentinel));
    let sentinel = sentinel.await.expect("no panic").expect("announced");
    let sentinel = stage.watch(sentinel);
    let (layout, gold) = (layout(), bucket(1000));
    let store = |deadline| stage.client.store(&sentinel.address(), &layout, deadline);
    let stores = [(&store(UNHURRIED), UNHURRIED), (&store(DEADLINE), DEADLINE)];
    swallowed_reply_is_charged_once_and_said(stores, &[&proxy], &gold).await;
}

/// Loses one reply after the script ran, in each way in which a reply can be lost.
async fn swallowed_reply_is_charged_once_and_said(
    stores: [(&Store, Duration); 2],
    proxies: &[&FaultProxy],
    gold: &Plan,
) {
    let [(unhurried, _), _] = stores;
    for ending in [Ending::Hang, Ending::Close, Ending::Reset] {
        for (store, deadline) in stores {
            let user = key(&format!("{ending:?} {deadline:?}"));
            recovers(store, gold, FAIL_OVER).await;
            // From here on the node of this user knows the script.
            assert!(spend(unhurried, &user, gold).await.is_ok());
            assert_eq!(spent(store, &user, gold).await, 1);
            for proxy in proxies {
                proxy.add_rule(ReplyRule::next(1, ReplyFault::Lost(ending)).to_command("EVALSHA"));
            }
            let error = spend(store, &user, gold).await.expect_err("no reply");
            // Should the client send it again, it does so by then.
            sleep(Duration::from_millis(300)).await;
            proxies.iter().for_each(|proxy| proxy.heal());
            recovers(store, gold, FAIL_OVER).await;
            check_lost_reply(deadline, &error, spent(store, &user, gold).await - 1);
        }
    }
}
