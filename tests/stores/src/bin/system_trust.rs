//! A process that trusts whom the system trusts: `system_trust redis|fred ADDRESS`. It spends one unit, says so, and spends another
//! whenever it is sent a line.
#![allow(clippy::expect_used, reason = "this is a part of a test")]

use std::io::{BufRead, stdin};

use limiter_store_tests::{Client, PATIENT, bucket, key, layout, recovers_for};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let client = match arguments.next().as_deref() {
        Some("redis") => Client::Redis,
        _ => Client::Fred,
    };
    let address = arguments.next().expect("an address");
    limiter_testkit::block_on(async {
        let store = client.store(&address, &layout(), PATIENT);
        loop {
            recovers_for(&store, &key("ann"), &bucket(10), PATIENT).await;
            println!("spent");
            // An end of the input is the end.
            if stdin().lock().lines().next().is_none() {
                return;
            }
        }
    });
}
