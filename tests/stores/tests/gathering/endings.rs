//! Connections and runtimes that end with calls under way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use limiter_core::Cost;
use limiter_store_tests::{Client, PATIENT, bucket, layout, on_clients_and_servers, spent};
use limiter_testkit::proxy::{Direction, Ending, FaultProxy, Toxic};
use limiter_testkit::server::{Flavour, RedisServer};

use crate::{CALLS, all_at_once, knows_the_scripts, started, user, users, warmed_up};

on_clients_and_servers! {
    lost_replies_are_charged_once_and_said
    runtime_that_ends_under_load_ends
}

/// No reply gets through, and the connection ends when the server has run every call.
async fn lost_replies_are_charged_once_and_said(client: Client, flavour: Flavour) {
    for ending in [Ending::Close, Ending::Reset, Ending::Hang] {
        let server = RedisServer::start(flavour).expect("a server");
        let proxy = FaultProxy::start(server.addr()).await.expect("a proxy");
        let (layout, plans, users) = (layout(), [bucket(10)], users());
        // What never answers is given up when time is up.
        let store = client.store(&server.url_at(proxy.addr()), &layout, PATIENT);
        warmed_up(&store, &plans).await;
        knows_the_scripts(&server);
        let others = server.keys().expect("keys").len();
        proxy.add(Direction::Replies, Toxic::Stall);
        let calls = all_at_once(&store, &users, &plans);
        let cut = async {
            let began = Instant::now();
            while server.keys().expect("keys").len() < others + users.len() {
                assert!(began.elapsed() < PATIENT, "{ending:?}: a call did not run");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            match ending {
                Ending::Close => proxy.close_connections().await,
                Ending::Reset => proxy.reset_connections().await,
                Ending::Hang => {}
            }
        };
        let (said, ()) = tokio::join!(calls, cut);
        for said in said {
            let error = said.expect_err("the replies are lost");
            let is_ambiguous = error.is_outage() && error.may_have_charged();
            assert!(is_ambiguous, "{ending:?}: {error:?}");
        }
        let direct = client.store(&server.url(), &layout, PATIENT);
        for user in &users {
            let spent = spent(&direct, user, &plans[0]).await;
            assert_eq!(spent, 1, "{ending:?}: {user:?}");
        }
    }
}

/// Runtimes that are dropped while calls wait for their turn, each on a thread of its own: one that locked itself out would
/// keep the test for ever.
async fn runtime_that_ends_under_load_ends(client: Client, flavour: Flavour) {
    let (server, layout, _) = started(client, flavour);
    let url = server.url();
    for _ in 0..10 {
        let (url, layout) = (url.clone(), layout.clone());
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime");
            let store = client.store(&url, &layout, PATIENT);
            for nth in 0..CALLS {
                let store = Arc::clone(&store);
                runtime.spawn(async move {
                    loop {
                        let plans = [bucket(10)];
                        let _ = store.try_acquire(&user(nth), &plans, Cost::ONE).await;
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(20));
            drop(runtime);
            let _ = done.send(());
        });
        let ended = is_done.recv_timeout(Duration::from_secs(20));
        ended.expect("the runtime ends");
    }
}
