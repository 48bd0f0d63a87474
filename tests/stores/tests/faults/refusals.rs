//! Servers that are there, and say no.

use std::time::{Duration, Instant};

use limiter_core::StoreError;
use limiter_store_tests::{
    DEADLINE, PATIENT, Stage, bucket, every_call_is_answered_while_scripts_are_flushed,
    faults_on_clients_and_servers, key, layout, recovers, spend, spent,
};
use limiter_testkit::proxy::{ReplyFault, ReplyRule};
use limiter_testkit::server::RedisServer;
use tokio::time::sleep;

use crate::RECOVERY;

faults_on_clients_and_servers! {
    script_flush_every_millisecond
    out_of_memory
    demoted_to_replica
    call_that_waits_outlasts_a_demotion
    loading_server_is_waited_for
    try_again_is_tried_again
    server_that_is_in_no_cluster_is_told
}

async fn script_flush_every_millisecond(stage: &Stage) {
    let server = stage.server();
    let store = stage.client.store(&server.url(), &layout(), PATIENT);
    every_call_is_answered_while_scripts_are_flushed(&store, &server, &key("ann")).await;
}

async fn server_that_is_in_no_cluster_is_told(stage: &Stage) {
    let server = stage.server();
    let address = format!("redis+cluster://{}", server.addr());
    let store = stage.client.store(&address, &layout(), PATIENT);
    for _ in 0..3 {
        let error = spend(&store, &key("ann"), &bucket(10)).await;
        let error = error.expect_err("no cluster");
        assert!(error.to_string().contains("by `redis://`"), "{error:?}");
    }
}

async fn out_of_memory(stage: &Stage) {
    let server = stage.server();
    let (gold, store) = (
        bucket(1000),
        stage.client.store(&server.url(), &layout(), PATIENT),
    );
    // Whose calls are held to the usual deadline, whatever they are told before it.
    let hasty = stage.client.store(&server.url(), &layout(), DEADLINE);
    recovers(&store, &gold, PATIENT).await;
    recovers(&hasty, &gold, PATIENT).await;
    server
        .config_set("maxmemory-policy", "noeviction")
        .expect("set");
    server.config_set("maxmemory", "1").expect("set");
    let error = spend(&store, &key("ann"), &gold)
        .await
        .expect_err("no memory");
    assert!(matches!(error, StoreError::Overloaded { .. }), "{error:?}");
    assert!(!error.may_have_charged());
    assert!(spend(&hasty, &key("ann"), &gold).await.is_err());
    server.config_set("maxmemory", "0").expect("set");
    recovers(&store, &gold, RECOVERY).await;
    recovers(&hasty, &gold, RECOVERY).await;
    assert_eq!(spent(&hasty, &key("ann"), &gold).await, 0);
    assert_eq!(spent(&store, &key("ann"), &gold).await, 0);
}

async fn demoted_to_replica(stage: &Stage) {
    let server = stage.server();
    let (gold, store) = (
        bucket(1000),
        stage.client.store(&server.url(), &layout(), DEADLINE),
    );
    recovers(&store, &gold, PATIENT).await;
    server.demote().expect("demoted");
    let (began, mut told) = (Instant::now(), 0);
    while told < 3 {
        let error = spend(&store, &key("ann"), &gold)
            .await
            .expect_err("read-only");
        assert!(error.is_outage(), "{error:?}");
        // It is tried again until the deadline: a reply that is still under way then leaves it open what it says.
        told += u8::from(!error.may_have_charged());
        assert!(began.elapsed() < RECOVERY, "{told} calls heard the server");
    }
    server.promote().expect("promoted");
    recovers(&store, &gold, RECOVERY).await;
    assert_eq!(spent(&store, &key("ann"), &gold).await, 0);
}

/// READONLY did not run, and is asked again until the deadline: the very call that heard it is answered, and charged once.
async fn call_that_waits_outlasts_a_demotion(stage: &Stage) {
    let server = stage.server();
    let (gold, ann) = (bucket(1000), key("ann"));
    let store = stage.client.store(&server.url(), &layout(), PATIENT);
    recovers(&store, &gold, PATIENT).await;
    server.demote().expect("demoted");
    let call = tokio::spawn({
        let (store, gold, ann) = (store.clone(), gold.clone(), ann.clone());
        async move { spend(&store, &ann, &gold).await }
    });
    let began = Instant::now();
    // More often than a client might ask by itself.
    while read_only_replies(&server) < 5 {
        assert!(!call.is_finished(), "the call did not wait");
        assert!(began.elapsed() < RECOVERY, "the call is not asked again");
        sleep(Duration::from_millis(1)).await;
    }
    server.promote().expect("promoted");
    let said = call.await.expect("no panic").expect("an answer");
    assert_eq!(said.plans[0].remaining, 999);
    assert_eq!(spent(&store, &ann, &gold).await, 1);
}

/// Returns how often the server has said READONLY.
fn read_only_replies(server: &RedisServer) -> u32 {
    let errors = server.info("errorstats").expect("errorstats");
    let count = errors.get("errorstat_READONLY");
    let count = count.and_then(|count| count.strip_prefix("count="));
    count.map_or(0, |count| count.trim().parse().expect("a number"))
}

async fn loading_server_is_waited_for(stage: &Stage) {
    let (server, layout) = (stage.server(), layout());
    let (address, ann) = (server.url(), key("ann"));
    let place = (address.as_str(), &layout);
    limiter_store_tests::loading_server_is_waited_for(stage.client, place, &server, &ann).await;
}

/// A script on one key gets no TRYAGAIN of a real server, which is why there is one key. Through the proxy, word by word as
/// Redis writes it; the call is one that changes nothing, for behind the proxy it did run.
async fn try_again_is_tried_again(stage: &Stage) {
    let (server, proxy) = stage.proxied().await;
    let gold = bucket(10);
    let store = stage
        .client
        .store(&server.url_at(proxy.addr()), &layout(), PATIENT);
    recovers(&store, &gold, PATIENT).await;
    assert_eq!(spent(&store, &key("ann"), &gold).await, 0);
    let before = proxy.requests_of("EVALSHA");
    let words = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
    proxy.add_rule(ReplyRule::next(3, ReplyFault::Garbage(words.into())).to_command("EVALSHA"));
    assert_eq!(spent(&store, &key("ann"), &gold).await, 0);
    assert_eq!(proxy.requests_of("EVALSHA") - before, 4);
}
