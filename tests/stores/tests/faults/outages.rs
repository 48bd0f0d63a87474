//! Servers that are not there, or do not answer.

use std::time::{Duration, Instant};

use limiter_core::Plan;
use limiter_store_tests::{
    BlackHole, DEADLINE, Load, PATIENT, Stage, Store, bucket, calls_that_fail_let_others_get_on,
    faults_on_clients_and_servers, key, layout, recovers, spend, spent, used_up,
};
use limiter_testkit::proxy::{Direction, Toxic};
use tokio::time::{sleep, timeout};

use crate::RECOVERY;

faults_on_clients_and_servers! {
    server_absent_at_start
    calls_that_fail_at_once_let_others_get_on
    killed_and_restarted_empty_under_load
    stopped_for_seconds
    blackholed_connection_is_replaced
    blackholed_connection_is_replaced_though_callers_are_impatient
    slow_connection_is_kept_though_callers_are_impatient
    host_that_comes_back_is_found_at_once
    too_many_clients
}

async fn server_absent_at_start(stage: &Stage) {
    let (server, proxy) = stage.proxied().await;
    proxy.refuse_connections().await;
    let store = stage
        .client
        .store(&server.url_at(proxy.addr()), &layout(), DEADLINE);
    let gold = bucket(10);
    for _ in 0..20 {
        let error = spend(&store, &key("ann"), &gold)
            .await
            .expect_err("no server");
        assert!(error.is_outage() && !error.may_have_charged(), "{error:?}");
    }
    proxy.accept_connections().await.expect("listens again");
    recovers(&store, &gold, RECOVERY).await;
    assert_eq!(spent(&store, &key("ann"), &gold).await, 0);
}

async fn calls_that_fail_at_once_let_others_get_on(stage: &Stage) {
    let (server, proxy) = stage.proxied().await;
    proxy.refuse_connections().await;
    let address = server.url_at(proxy.addr());
    calls_that_fail_let_others_get_on(stage.client, &address).await;
}

/// Each life of the server is used up before it is killed. So exactly the limit is charged in each, and what was admitted is that,
/// but for calls of which nobody learnt whether they were charged.
async fn killed_and_restarted_empty_under_load(stage: &Stage) {
    const LIMIT: u32 = 1000;
    let server = stage.server();
    let (layout, gold, ann) = (layout(), bucket(LIMIT), key("ann"));
    let store = stage.client.store(&server.url(), &layout, DEADLINE);
    recovers(&store, &gold, PATIENT).await;
    let load = Load::begin(&store, &ann, &gold);
    let losses = 3;
    for _ in 0..losses {
        used_up(&store, &ann, &gold).await;
        let server = server.clone();
        tokio::task::spawn_blocking(move || {
            server.kill();
            server.restart().expect("starts again");
        })
        .await
        .expect("no panic");
        recovers(&store, &gold, RECOVERY).await;
    }
    used_up(&store, &ann, &gold).await;
    let (admitted, unsure) = load.end().await;
    let charged = LIMIT * (1 + losses);
    assert!(admitted <= charged, "{admitted} admitted");
    assert!(
        admitted + unsure >= charged,
        "{admitted} admitted, {unsure} unsure"
    );
}

async fn stopped_for_seconds(stage: &Stage) {
    let server = stage.server();
    let gold = bucket(1000);
    let store = stage.client.store(&server.url(), &layout(), DEADLINE);
    recovers(&store, &gold, PATIENT).await;
    server.pause().expect("stops");
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        let error = spend(&store, &key("ann"), &gold)
            .await
            .expect_err("a stopped server");
        assert!(error.is_outage(), "{error:?}");
        sleep(Duration::from_millis(5)).await;
    }
    server.resume().expect("goes on");
    recovers(&store, &gold, RECOVERY).await;
}

async fn blackholed_connection_is_replaced(stage: &Stage) {
    let (server, proxy) = stage.proxied().await;
    let gold = bucket(1000);
    let store = stage
        .client
        .store(&server.url_at(proxy.addr()), &layout(), DEADLINE);
    recovers(&store, &gold, PATIENT).await;
    proxy.add(Direction::Both, Toxic::Blackhole);
    for _ in 0..5 {
        let error = spend(&store, &key("ann"), &gold)
            .await
            .expect_err("a black hole");
        assert!(error.is_outage(), "{error:?}");
    }
    // New connections are well; those from before stay dead for ever.
    proxy.heal();
    recovers(&store, &gold, RECOVERY).await;
}

/// The deadline of a store whose callers wait less long.
const AMPLE: Duration = Duration::from_millis(500);
const IMPATIENT: Duration = Duration::from_millis(100);

/// Calls one after another for a while, and gives each up early; stops at an answer, and returns whether there was one.
async fn is_answered_in(limit: Duration, store: &Store, plan: &Plan) -> bool {
    let began = Instant::now();
    while began.elapsed() < limit {
        let ann = key("ann");
        let said = timeout(IMPATIENT, spend(store, &ann, plan)).await;
        if said.is_ok_and(|said| said.is_ok()) {
            return true;
        }
        sleep(Duration::from_millis(1)).await;
    }
    false
}

async fn blackholed_connection_is_replaced_though_callers_are_impatient(stage: &Stage) {
    let (server, proxy) = stage.proxied().await;
    let (address, gold) = (server.url_at(proxy.addr()), bucket(1000));
    let store = stage.client.store(&address, &layout(), AMPLE);
    recovers(&store, &gold, PATIENT).await;
    proxy.add(Direction::Both, Toxic::Blackhole);
    assert!(!is_answered_in(2 * IMPATIENT, &store, &gold).await);
    proxy.heal();
    assert!(is_answered_in(RECOVERY, &store, &gold).await);
}

/// No call is answered before its caller has gone; but answered it is.
async fn slow_connection_is_kept_though_callers_are_impatient(stage: &Stage) {
    let (server, proxy) = stage.proxied().await;
    let (address, gold) = (server.url_at(proxy.addr()), bucket(1000));
    let store = stage.client.store(&address, &layout(), AMPLE);
    recovers(&store, &gold, PATIENT).await;
    let slow = Toxic::Latency {
        delay: 3 * IMPATIENT / 2,
        jitter: Duration::ZERO,
    };
    proxy.add(Direction::Replies, slow);
    let before = proxy.counts().connections;
    assert!(!is_answered_in(3 * AMPLE, &store, &gold).await);
    assert_eq!(proxy.counts().connections, before);
}

/// The host comes back when the kernel has just dropped the first packet to it, which it does not repeat for a second.
async fn host_that_comes_back_is_found_at_once(stage: &Stage) {
    /// Attempts begin 600 ms apart at most.
    const AT_ONCE: Duration = Duration::from_millis(850);
    let (server, hole, gold) = (stage.server(), BlackHole::open().await, bucket(10));
    let address = server.url_at(hole.addr());
    let store = stage.client.store(&address, &layout(), DEADLINE);
    let error = spend(&store, &key("ann"), &gold).await;
    assert!(error.expect_err("a black hole").is_outage());
    hole.come_back(server.addr());
    recovers(&store, &gold, AT_ONCE).await;
}

async fn too_many_clients(stage: &Stage) {
    let server = stage.start(stage.builder().with_max_clients(3));
    let gold = bucket(10);
    // The test's own connection counts as well; two others fill the house.
    let mut guests: Vec<_> = (0..4)
        .map(|_| std::net::TcpStream::connect(server.addr()))
        .collect();
    sleep(Duration::from_millis(100)).await;
    let store = stage.client.store(&server.url(), &layout(), DEADLINE);
    for _ in 0..10 {
        let error = spend(&store, &key("ann"), &gold)
            .await
            .expect_err("no room");
        assert!(error.is_outage() && !error.may_have_charged(), "{error:?}");
        sleep(Duration::from_millis(5)).await;
    }
    guests.clear();
    recovers(&store, &gold, RECOVERY).await;
}
