//! A server that loads its data.

use std::time::Instant;

use limiter_core::{Cost, Key};
use limiter_lua::KeyLayout;
use limiter_testkit::server::RedisServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::{Client, DEADLINE, PATIENT, RECOVERY, bucket, recovers_for, spend};

/// Makes `server`, which has the key of `user`, load its own data anew, slowly: for half a second
/// or so it says LOADING to everyone, really. Checks that calls fail in time, and that a call with
/// a long deadline waits for the server and is charged once.
pub async fn loading_server_is_waited_for(
    client: Client,
    (address, layout): (&str, &KeyLayout),
    server: &RedisServer,
    user: &Key,
) {
    let gold = bucket(1000);
    let hasty = client.store(address, layout, DEADLINE);
    let patient = client.store(address, layout, PATIENT);
    recovers_for(&hasty, user, &gold, PATIENT).await;
    let said = spend(&patient, user, &gold).await.expect("an answer");
    assert!(said.admitted);
    let populate = ["DEBUG", "POPULATE", "1000"];
    server.command(&populate).expect("filled");
    server
        .config_set("loading-process-events-interval-bytes", "1024")
        .expect("set");
    server.config_set("key-load-delay", "500").expect("set");
    let mut reload = TcpStream::connect(server.addr()).await.expect("connects");
    reload.write_all(b"DEBUG RELOAD\r\n").await.expect("sent");
    let (began, silver) = (Instant::now(), crate::plan("silver", "1/h burst 1000000"));
    let error = loop {
        match spend(&hasty, user, &silver).await {
            Ok(_) => assert!(began.elapsed() < RECOVERY, "the server never said LOADING"),
            Err(error) => break error,
        }
    };
    assert!(error.is_outage(), "{error:?}");
    // This one waits for the server, and is charged once.
    let waited = patient
        .try_acquire(user, std::slice::from_ref(&gold), Cost::ONE)
        .await
        .expect("an answer");
    assert_eq!(waited.plans[0].remaining, said.plans[0].remaining - 1);
    let mut reloaded = [0; 5];
    reload.read_exact(&mut reloaded).await.expect("an answer");
    assert_eq!(&reloaded, b"+OK\r\n");
    recovers_for(&hasty, user, &gold, RECOVERY).await;
    // What filled the server has no TTL.
    server.flush_all().expect("emptied");
}
