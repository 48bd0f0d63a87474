//! What is told of a store that has much, or tells little.

use std::time::Duration;

use limiter_store_tests::{DEADLINE, PATIENT, Stage, faults_on_clients, in_time, layout};
use limiter_testkit::proxy::{Direction, Toxic};

use crate::connected;

faults_on_clients! {
    stats_of_many_keys_end_by_their_deadline
    stats_of_nodes_that_tell_no_host_are_complete
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
