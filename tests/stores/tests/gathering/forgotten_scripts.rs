//! Servers that do not know the scripts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use limiter_core::Cost;
use limiter_store_tests::{Client, bucket, key};
use limiter_testkit::server::{Flavour, RedisServer};

use crate::{CALLS, knows_the_scripts, started, users};

on_clients_and_old_servers_too! {
    calls_run_once_on_a_server_that_forgot_the_scripts
    calls_run_once_on_a_server_that_keeps_forgetting_the_scripts
}

async fn calls_run_once_on_a_server_that_forgot_the_scripts(client: Client, flavour: Flavour) {
    let (server, _, store) = started(client, flavour);
    let (plans, hot) = ([bucket(100)], key("hot"));
    let mut admitted = 0;
    for _ in 0..3 {
        server.command(&["SCRIPT", "FLUSH"]).expect("flushed");
        let calls = (0..CALLS).map(|_| store.try_acquire(&hot, &plans, Cost::ONE));
        for said in join_all(calls).await {
            admitted += u32::from(said.expect("an answer").admitted);
        }
    }
    assert_eq!(admitted, 100);
}

async fn calls_run_once_on_a_server_that_keeps_forgetting_the_scripts(
    client: Client,
    flavour: Flavour,
) {
    const TIMES: u32 = 50;
    let (server, _, store) = started(client, flavour);
    let (server, stop) = (Arc::new(server), Arc::new(AtomicBool::new(false)));
    let flusher = {
        let (server, stop) = (Arc::clone(&server), Arc::clone(&stop));
        tokio::task::spawn_blocking(move || {
            while !stop.load(Ordering::Relaxed) {
                server.script_flush().expect("flushed");
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    };
    let callers = users().into_iter().map(|user| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for nth in 1..=TIMES {
                let said = store.try_acquire(&user, &[bucket(1000)], Cost::ONE).await;
                assert_eq!(said.expect("an answer").plans[0].remaining, 1000 - nth);
            }
        })
    });
    for caller in join_all(callers).await {
        caller.expect("no call failed");
    }
    stop.store(true, Ordering::Relaxed);
    flusher.await.expect("no panic");
}

#[test]
fn every_script_is_known_by_its_name_in_both_forms_on_every_server() {
    for flavour in Flavour::ALL {
        knows_the_scripts(&RedisServer::start(flavour).expect("a server"));
    }
}
