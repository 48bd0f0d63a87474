//! Nothing of an idle key stays behind, and what counts is not let go: by the server's own clock and its own expiry.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "this is a test"
)]

use std::time::Duration;

use limiter_core::Cost;
use limiter_store_tests::{Client, PATIENT, key, layout, on_clients, plan};
use limiter_testkit::server::{Flavour, RedisServer};
use tokio::time::sleep;

on_clients! {
    every_key_has_a_ttl_that_covers_its_plans_and_little_more
    nothing_is_left_after_the_ttl
}

/// The most by which a TTL outlasts the plans: a slot of 5 s, and a second.
const SPARE: Duration = Duration::from_secs(6);

async fn every_key_has_a_ttl_that_covers_its_plans_and_little_more(client: Client) {
    let server = RedisServer::start(Flavour::Redis).expect("Redis starts");
    let layout = layout();
    let store = client.store(&server.url(), &layout, PATIENT);
    let user = key("ann");
    let name = layout.name(&user);
    let mut covered = Duration::ZERO;
    // Short ones first and last: the TTL follows the longest and is not cut by a shorter one.
    for limit in [
        "10/s",
        "sliding 10/min",
        "7/3h burst 10",
        "suppressing 10/d",
        "fixed 10/s",
        "1/s burst 10",
    ] {
        let name_of_plan = format!("plan-{}", covered.as_secs());
        let plans = [plan(&name_of_plan, limit)];
        let said = store
            .try_acquire(&user, &plans, Cost::ONE)
            .await
            .expect("an answer");
        covered = covered.max(said.plans[0].reset_after);
        let ttl = server
            .command(&[&b"PTTL"[..], &name])
            .expect("PTTL")
            .int()
            .expect("a number");
        let ttl = Duration::from_millis(u64::try_from(ttl).expect("a TTL"));
        // The calls took a moment, and so the earlier plans are as much nearer to their end.
        let margin = Duration::from_secs(2);
        assert!(
            ttl + margin >= covered,
            "{limit}: {ttl:?} does not cover {covered:?}"
        );
        assert!(ttl <= covered + SPARE, "{limit}: {ttl:?} for {covered:?}");
    }
}

async fn nothing_is_left_after_the_ttl(client: Client) {
    let server = RedisServer::start(Flavour::Redis).expect("Redis starts");
    let store = client.store(&server.url(), &layout(), PATIENT);
    for limit in [
        "10/s",
        "sliding 10/s",
        "suppressing 10/s",
        "fixed 10/s",
        "7/2s burst 3",
    ] {
        let user = key(limit);
        let plans = [plan("gold", limit)];
        let said = store
            .try_acquire(&user, &plans, Cost::ONE)
            .await
            .expect("an answer");
        assert!(said.admitted);
    }
    assert_eq!(server.keys().expect("keys").len(), 5);
    sleep(Duration::from_secs(2) + SPARE).await;
    assert!(server.keys().expect("keys").is_empty());
}
