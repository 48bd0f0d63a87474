//! Servers that are not there, or do not answer.

use std::time::{Duration, Instant};

use limiter_core::{Key, Plan};
use limiter_store_tests::{
    Arranged, DEADLINE, FAIL_OVER, Load, RECOVERY, Stage, Store, bucket,
    calls_that_fail_let_others_get_on, key, plan, recovers_for, spend, spent, used_up,
};
use limiter_testkit::proxy::{Direction, Toxic};
use tokio::time::sleep;

arranged! {
    everywhere:
        server_absent_at_start
        calls_that_fail_at_once_let_others_get_on
        stopped_for_seconds
        stopped_at_start
        blackholed_connection_is_replaced
        connections_that_are_cut_are_made_anew
        too_many_clients;
    on_a_cluster: killed_and_restarted_empty_under_load;
    behind_sentinels: ;
    where_another_takes_over: killed_and_taken_over_under_load;
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

async fn calls_that_fail_at_once_let_others_get_on(stage: &Stage, all: Arranged) {
    for proxy in &all.proxies {
        proxy.refuse_connections().await;
    }
    calls_that_fail_let_others_get_on(stage.client, &all.address).await;
}

/// A node that wakes up has to hear from the others before it serves again; sentinels have elected
/// another by then.
async fn stopped_for_seconds(stage: &Stage, all: Arranged) {
    let (store, gold) = (all.store(stage, DEADLINE), bucket(100_000));
    all.recovers(&store, &gold).await;
    all.server().pause().expect("stops");
    let failed = fails_or_another_answers(&store, &all.user, &gold, Duration::from_secs(2));
    assert!(failed.await > 0, "it was stopped");
    all.server().resume().expect("goes on");
    recovers_for(&store, &all.user, &gold, FAIL_OVER).await;
}

async fn stopped_at_start(stage: &Stage, all: Arranged) {
    let gold = bucket(100_000);
    all.server().pause().expect("stops");
    let store = all.store(stage, DEADLINE);
    let failed = fails_or_another_answers(&store, &all.user, &gold, Duration::from_secs(1));
    assert!(failed.await > 0, "it was stopped");
    all.server().resume().expect("goes on");
    recovers_for(&store, &all.user, &gold, FAIL_OVER).await;
}

/// Makes calls for a while that fail, or are answered by another server that has taken over;
/// returns how many failed.
async fn fails_or_another_answers(store: &Store, user: &Key, plan: &Plan, time: Duration) -> u32 {
    let (began, mut failed) = (Instant::now(), 0);
    while began.elapsed() < time {
        if let Err(error) = spend(store, user, plan).await {
            assert!(error.is_outage(), "{error:?}");
            failed += 1;
        }
        sleep(Duration::from_millis(5)).await;
    }
    failed
}

async fn blackholed_connection_is_replaced(stage: &Stage, all: Arranged) {
    let (store, gold) = (all.store(stage, DEADLINE), bucket(1000));
    all.recovers(&store, &gold).await;
    all.proxy().add(Direction::Both, Toxic::Blackhole);
    for _ in 0..5 {
        let error = spend(&store, &all.user, &gold).await;
        assert!(error.expect_err("a black hole").is_outage());
    }
    // New connections are well; those from before stay dead for ever, the sentinels' too.
    all.proxy().heal();
    all.recovers_by_itself_or_another(&store, &gold).await;
}

async fn connections_that_are_cut_are_made_anew(stage: &Stage, all: Arranged) {
    let (store, gold) = (all.store(stage, DEADLINE), bucket(1000));
    for _ in 0..3 {
        all.recovers_by_itself_or_another(&store, &gold).await;
        // It has worked for longer than there is between two attempts to connect.
        sleep(Duration::from_millis(700)).await;
        for proxy in &all.proxies {
            proxy.reset_connections().await;
        }
        // Those of the sentinels are cut as well.
        all.recovers_by_itself_or_another(&store, &gold).await;
    }
}

/// Other nodes and sentinels are there already, and stay.
async fn too_many_clients(stage: &Stage, all: Arranged) {
    let (server, gold) = (all.server(), bucket(10));
    server.config_set("maxclients", "1").expect("set");
    let store = all.store(stage, DEADLINE);
    for _ in 0..10 {
        let error = spend(&store, &all.user, &gold).await;
        let error = error.expect_err("no room");
        assert!(error.is_outage() && !error.may_have_charged(), "{error:?}");
        sleep(Duration::from_millis(5)).await;
    }
    server.config_set("maxclients", "1000").expect("set");
    all.recovers(&store, &gold).await;
}

/// A plan with a name of its own, for calls that are not to be counted.
fn bucket_of_others() -> Plan {
    plan("others", "1/h burst 10")
}

/// Each life of the node is used up before it is killed. So exactly the limit is charged in each,
/// and what was admitted is that, but for calls of which nobody learnt whether they were charged.
async fn killed_and_restarted_empty_under_load(stage: &Stage, all: Arranged) {
    const LIMIT: u32 = 1000;
    let (store, gold) = (all.store(stage, DEADLINE), bucket(LIMIT));
    all.recovers(&store, &bucket_of_others()).await;
    let load = Load::begin(&store, &all.user, &gold);
    let losses = 2;
    for _ in 0..losses {
        used_up(&store, &all.user, &gold).await;
        tokio::task::block_in_place(|| {
            all.server().kill();
            all.server().restart().expect("starts again");
        });
        // It takes no part for its first two seconds.
        recovers_for(&store, &all.user, &bucket_of_others(), FAIL_OVER).await;
    }
    used_up(&store, &all.user, &gold).await;
    let (admitted, unsure) = load.end().await;
    let charged = LIMIT * (1 + losses);
    let sound = admitted <= charged && admitted + unsure >= charged;
    assert!(sound, "{admitted} admitted, {unsure} unsure");
}

/// What was used up and has reached the replica stays used up: not a unit is admitted by the one
/// that takes over.
async fn killed_and_taken_over_under_load(stage: &Stage, all: Arranged) {
    const LIMIT: u32 = 1000;
    let (store, gold) = (all.store(stage, DEADLINE), bucket(LIMIT));
    all.recovers(&store, &bucket_of_others()).await;
    let load = Load::begin(&store, &all.user, &gold);
    used_up(&store, &all.user, &gold).await;
    tokio::task::block_in_place(|| {
        all.wait_until_replicated();
        all.server().kill();
    });
    recovers_for(&store, &all.user, &bucket_of_others(), FAIL_OVER).await;
    assert_eq!(spent(&store, &all.user, &gold).await, LIMIT);
    assert!(all.is_taken_over());
    // The load goes on with the one that took over.
    sleep(Duration::from_millis(250)).await;
    let (admitted, unsure) = load.end().await;
    let sound = admitted <= LIMIT && admitted + unsure >= LIMIT;
    assert!(sound, "{admitted} admitted, {unsure} unsure");
}
