//! What is told of a store that has much, or tells little.

use std::time::{Duration, Instant};

use limiter_sessions::StoreReport;
use limiter_store_tests::{
    DEADLINE, PATIENT, Sessions, Stage, ends_by, faults_on_clients, in_time, layout,
};
use limiter_testkit::proxy::{Direction, Toxic};

use crate::connected;

faults_on_clients! {
    stats_of_many_keys_end_by_their_deadline
    stats_of_nodes_that_tell_no_host_are_complete
    stats_without_a_killed_node_are_a_part
    stats_without_a_stopped_node_are_a_part
}

/// Each answer takes a third of the deadline, and there are dozens to wait for: what is told in time is said to be a part.
async fn stats_of_many_keys_end_by_their_deadline(stage: &Stage) {
    let (server, proxy) = stage.proxied().await;
    let fill = "for i = 1, 30000 do redis.call('SET', 'other' .. i, 1, 'PX', 600000) end";
    server.command(&["EVAL", fill, "0"]).expect("EVAL");
    let store = stage
        .client
        .sessions(&server.url_at(proxy.addr()), &layout(), DEADLINE);
    connected(&store).await;
    let latency = Toxic::Latency {
        delay: DEADLINE / 3,
        jitter: Duration::ZERO,
    };
    proxy.add(Direction::Replies, latency);
    match in_time(store.stats(u32::MAX)).await {
        Ok(report) => assert!(!report.is_complete, "{report:?}"),
        // Nothing was learnt: the machine is crowded.
        Err(error) => assert!(error.is_outage() && !error.may_have_charged(), "{error:?}"),
    }
    let patient = stage.client.sessions(&server.url(), &layout(), PATIENT);
    let report = patient.stats(u32::MAX).await.expect("an answer");
    assert!(report.is_complete && report.memory_bytes > 0, "{report:?}");
}

/// Nodes that keep their hosts to themselves are asked at the host at which the list of them was.
async fn stats_of_nodes_that_tell_no_host_are_complete(stage: &Stage) {
    let cluster = stage.cluster();
    for node in cluster.nodes() {
        let set = node.config_set("cluster-preferred-endpoint-type", "unknown-endpoint");
        set.expect("set");
    }
    let store = stage
        .client
        .sessions(&cluster.address(), &layout(), PATIENT);
    let report = store.stats(1000).await.expect("an answer");
    assert!(
        report.is_complete && report.memory_bytes > 1_000_000,
        "{report:?}"
    );
}

/// Whichever of the nodes it is: those beside it tell what they have, and they do not wait for it.
async fn stats_without_a_killed_node_are_a_part(stage: &Stage) {
    let cluster = stage.cluster();
    let address = cluster.address();
    let store = stage.client.sessions(&address, &layout(), A_WHILE);
    let whole = whole(&store).await;
    cluster.nodes().nth(1).expect("a node").kill();
    for _ in 0..10 {
        is_a_part(&store, &whole).await;
    }
}

async fn stats_without_a_stopped_node_are_a_part(stage: &Stage) {
    let cluster = stage.cluster();
    let address = cluster.address();
    let store = stage.client.sessions(&address, &layout(), A_WHILE);
    for node in cluster.nodes() {
        let whole = whole(&store).await;
        node.pause().expect("stops");
        is_a_part(&store, &whole).await;
        node.resume().expect("goes on");
    }
}

/// Long enough for the nodes that answer, on a crowded machine too; and it is waited for those that
/// do not.
const A_WHILE: Duration = Duration::from_millis(500);

/// Returns what all nodes tell.
async fn whole(store: &Sessions) -> StoreReport {
    connected(store).await;
    let began = Instant::now();
    loop {
        let report = ends_by(A_WHILE, store.stats(1000)).await;
        if let Some(whole) = report.ok().filter(|report| report.is_complete) {
            return whole;
        }
        assert!(began.elapsed() < PATIENT, "the nodes do not all answer");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Checks that two of three nodes told what they have.
async fn is_a_part(store: &Sessions, whole: &StoreReport) {
    let report = ends_by(A_WHILE, store.stats(1000)).await;
    let part = report.expect("two nodes answer");
    assert!(!part.is_complete, "{part:?}");
    let two_thirds = whole.memory_bytes * 2 / 3;
    let about = two_thirds * 9 / 10..=two_thirds * 11 / 10;
    assert!(about.contains(&part.memory_bytes), "{part:?} of {whole:?}");
}
