//! What a store leaves behind that is dropped, or that never connected: no task and no connection.
#![cfg(test)]

use std::time::{Duration, Instant};

use limiter_lua::Connections;
use limiter_store_tests::{
    BlackHole, DEADLINE, PATIENT, Stage, bucket, faults_on_clients, key, layout, recovers, spend,
};
use tokio::runtime::Handle;
use tokio::time::sleep;

faults_on_clients! {
    store_that_is_dropped_leaves_no_connection
    connections_that_were_never_made_leave_no_task
}

/// Waits until so many tasks are alive again as before.
async fn until_tasks_are(before: usize) {
    let (began, alive) = (Instant::now(), || {
        Handle::current().metrics().num_alive_tasks()
    });
    while alive() > before {
        assert!(
            began.elapsed() < PATIENT,
            "{} tasks, {before} before",
            alive()
        );
        sleep(Duration::from_millis(20)).await;
    }
}

async fn store_that_is_dropped_leaves_no_connection(stage: &Stage) {
    let server = stage.server();
    let clients = || {
        let clients = server.info("clients").expect("clients");
        clients["connected_clients"]
            .parse::<u32>()
            .expect("a number")
    };
    let (before, tasks) = (clients(), Handle::current().metrics().num_alive_tasks());
    for _ in 0..3 {
        let four = Connections::new(4).expect("four");
        let store = stage
            .client
            .pooled_store(&server.url(), &layout(), PATIENT, four);
        recovers(&store, &bucket(10), PATIENT).await;
        for _ in 0..20 {
            let said = spend(&store, &key("ann"), &bucket(100)).await;
            assert!(said.expect("an answer").admitted);
        }
        assert!(clients() > before);
    }
    until_tasks_are(tasks).await;
    let began = Instant::now();
    while clients() > before {
        assert!(began.elapsed() < PATIENT, "{} clients", clients());
        sleep(Duration::from_millis(20)).await;
    }
}

/// Whether the time for connecting has passed, or nobody waits for it any longer.
async fn connections_that_were_never_made_leave_no_task(stage: &Stage) {
    // So that there is a server to look at when the test is over.
    let server = stage.server();
    let hole = BlackHole::open().await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    for nth in 0..4 {
        let seeds = [hole.addr(), server.addr()].map(|addr| addr.to_string());
        let address = match nth {
            0 => format!("redis://{}", hole.addr()),
            1 => format!("redis+sentinel://{}/main", hole.addr()),
            _ => format!("redis+cluster://{}", seeds.join(",")),
        };
        let store = stage.client.store(&address, &layout(), DEADLINE);
        for _ in 0..10 {
            let error = spend(&store, &key("ann"), &bucket(10)).await;
            assert!(!error.expect_err("nobody there").may_have_charged());
        }
    }
    until_tasks_are(tasks).await;
}
