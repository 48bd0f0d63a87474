//! Servers that are there, and say no, or have what nobody understands.

use std::time::{Duration, Instant};

use limiter_core::StoreError;
use limiter_store_tests::{
    Arranged, DEADLINE, FAIL_OVER, PATIENT, RECOVERY, Stage, UNHURRIED, bucket,
    every_call_is_answered_while_scripts_are_flushed,
    foreign_values_are_neither_read_nor_overwritten, spend, spent,
};
use tokio::time::sleep;

arranged! {
    everywhere:
        out_of_memory
        loading_server_is_waited_for
        wrong_password
        foreign_and_corrupt_values
        script_flush_every_millisecond;
    on_a_cluster: ;
    behind_sentinels: ;
    where_another_takes_over: demoted_and_another_answers;
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

async fn loading_server_is_waited_for(stage: &Stage, all: Arranged) {
    let place = (all.address.as_str(), &all.layout);
    let (server, user) = (all.server(), &all.user);
    limiter_store_tests::loading_server_is_waited_for(stage.client, place, server, user).await;
}

/// A store with the wrong password works by itself once the servers know it. Sentinels know no
/// password.
async fn wrong_password(stage: &Stage, all: Arranged) {
    let known = |password: &str| {
        for server in all.servers() {
            server.config_set("requirepass", password).expect("set");
        }
    };
    known("right");
    let address = all.address.replace("://", "://default:wrong@");
    let store = stage.client.store(&address, &all.layout, DEADLINE);
    let gold = bucket(10);
    // A server that does not come to its turn in time says nothing.
    let (began, mut told) = (Instant::now(), 0);
    while told < 10 {
        let refused = spend(&store, &all.user, &gold).await;
        let error = refused.expect_err("wrong password");
        assert!(!error.may_have_charged(), "{error:?}");
        told += u8::from(matches!(error, StoreError::Misconfigured { .. }));
        assert!(began.elapsed() < RECOVERY, "told {told} times: {error:?}");
        sleep(Duration::from_millis(10)).await;
    }
    known("wrong");
    all.recovers(&store, &gold).await;
}

async fn foreign_and_corrupt_values(stage: &Stage, all: Arranged) {
    let place = (all.address.as_str(), &all.layout);
    let (server, user) = (all.server(), &all.user);
    foreign_values_are_neither_read_nor_overwritten(stage.client, place, server, user).await;
}

async fn script_flush_every_millisecond(stage: &Stage, all: Arranged) {
    let store = all.store(stage, PATIENT);
    let (server, user) = (all.server(), &all.user);
    every_call_is_answered_while_scripts_are_flushed(&store, server, user).await;
}

/// Whatever was answered is charged at the one that has the key in the end, once; so may be what
/// was not answered.
async fn demoted_and_another_answers(stage: &Stage, all: Arranged) {
    let (store, gold) = (all.store(stage, DEADLINE), bucket(100_000));
    all.recovers(&store, &gold).await;
    let mut charged = spent(&store, &all.user, &gold).await;
    tokio::task::block_in_place(|| {
        all.wait_until_replicated();
        all.demote();
    });
    let (began, mut unsure, mut answered_by_another) = (Instant::now(), 0, 0);
    while answered_by_another < 10 {
        let is_taken_over = all.is_taken_over();
        match spend(&store, &all.user, &gold).await {
            Ok(_) => {
                charged += 1;
                answered_by_another += u32::from(is_taken_over);
            }
            Err(error) => {
                assert!(error.is_outage(), "{error:?}");
                unsure += u32::from(error.may_have_charged());
            }
        }
        let so_far = began.elapsed();
        assert!(so_far < FAIL_OVER, "{answered_by_another} calls answered");
        sleep(Duration::from_millis(5)).await;
    }
    let spent = spent(&store, &all.user, &gold).await;
    let sound = (charged..=charged + unsure).contains(&spent);
    assert!(sound, "{spent} spent, {charged} charged, {unsure} unsure");
}
