//! A server that forgets the scripts.

use std::time::Duration;

use limiter_core::{Cost, Key};
use limiter_testkit::server::RedisServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::{Store, bucket, plan};

/// Checks that every call is answered, and charged once, while `server` forgets all scripts every
/// millisecond.
pub async fn every_call_is_answered_while_scripts_are_flushed(
    store: &Store,
    server: &RedisServer,
    user: &Key,
) {
    let gold = bucket(100_000);
    let plans = [gold, plan("window", "sliding 1000000/h")];
    let calls = async {
        for nth in 1..=500 {
            let said = store.try_acquire(user, &plans, Cost::ONE).await;
            let remaining = said.expect("an answer").plans[0].remaining;
            assert_eq!(remaining, 100_000 - nth);
        }
    };
    tokio::select! {
        () = calls => {}
        () = flush_every_millisecond(server) => {}
    }
}

async fn flush_every_millisecond(server: &RedisServer) {
    let mut connection = TcpStream::connect(server.addr()).await.expect("connects");
    let mut reply = [0; 5];
    loop {
        let flush = connection.write_all(b"SCRIPT FLUSH\r\n").await;
        flush.expect("sent");
        let flushed = connection.read_exact(&mut reply).await;
        assert!(flushed.is_ok() && &reply == b"+OK\r\n", "{reply:?}");
        sleep(Duration::from_millis(1)).await;
    }
}
