//! Nothing of an idle key stays behind, and what counts is not let go: by the server's own clock and its own expiry.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "this is a test"
)]

use std::time::Duration;

use futures_util::FutureExt as _;
use limiter_core::Cost;
use limiter_store_tests::{Client, PATIENT, key, layout, on_clients, plan, recovers, spend};
use limiter_testkit::proxy::{Ending, FaultProxy, ReplyFault, ReplyRule};
use limiter_testkit::server::{Flavour, RedisServer};
use tokio::time::sleep;

on_clients! {
    every_key_has_a_ttl_that_covers_its_plans_and_little_more
    what_ends_in_a_later_slot_is_covered
    nothing_is_left_after_the_ttl
}

/// One of each algorithm, and of each form; none lasts longer than 2 s.
const LIMITS: [&str; 5] = [
    "10/s",
    "sliding 10/s",
    "suppressing 10/s",
    "fixed 10/s",
    "7/2s burst 3",
];
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

/// A bucket whose rate has changed may be full within a microsecond, here within the last one of a slot. Its TTL lasts as long
/// as that slot, so the next charge, which ends in the slot after it, needs a longer one.
async fn what_ends_in_a_later_slot_is_covered(client: Client) {
    const SLOT_US: u64 = 5_000_000;
    const TOKEN_US: u64 = 3_000_000;
    let server = RedisServer::start(Flavour::Redis).expect("Redis starts");
    let layout = layout();
    let store = client.store(&server.url(), &layout, PATIENT);
    let gold = plan("gold", "1/3s burst 100");
    // Decided by the script of few token buckets, and by that of any chain.
    for (name, gold) in [("ann", gold.clone()), ("bob", gold.in_shadow())] {
        let (user, now_us) = (key(name), now_us(&server));
        let slot_ends_us = (now_us / SLOT_US + 5) * SLOT_US;
        let debt = (slot_ends_us - 1 - now_us) * 1024 + 512;
        let mut state = vec![0x17];
        state.extend_from_slice(&now_us.to_be_bytes()[1..]);
        state.extend_from_slice(&debt.to_be_bytes()[1..]);
        state.extend_from_slice(&TOKEN_US.to_be_bytes()[4..]);
        let name = layout.name(&user);
        let set = server.command(&[&b"HSET"[..], &name, b"gold", &state]);
        set.expect("set");
        let until_ms = (slot_ends_us / 1000 + 1000).to_string();
        let expires = server.command(&[&b"PEXPIREAT"[..], &name, until_ms.as_bytes()]);
        expires.expect("a TTL");
        let said = spend(&store, &user, &gold).await.expect("an answer");
        assert!(said.admitted && said.plans[0].remaining < 95);
        let ttl = server.command(&[&b"PTTL"[..], &name]).expect("PTTL");
        let ttl_ms = u64::try_from(ttl.int().expect("a number")).expect("a TTL");
        // Asked afterwards: a slow test lets a TTL pass that is too short, and none fail that is not.
        let expires_us = self::now_us(&server) + ttl_ms * 1000;
        let full_at_us = slot_ends_us + TOKEN_US;
        assert!(expires_us >= full_at_us, "{expires_us} before {full_at_us}");
    }
}

fn now_us(server: &RedisServer) -> u64 {
    let time = server.command(&["TIME"]).expect("TIME");
    let part = |nth: usize| u64::try_from(time.items()[nth].int().expect("a number")).ok();
    part(0).expect("seconds") * 1_000_000 + part(1).expect("microseconds")
}

/// Not on a server that was well all the time, and not on one of which calls failed, were cut off or given up.
async fn nothing_is_left_after_the_ttl(client: Client) {
    let server = RedisServer::start(Flavour::Redis).expect("Redis starts");
    let store = client.store(&server.url(), &layout(), PATIENT);
    for limit in LIMITS {
        let said = spend(&store, &key(limit), &plan("gold", limit)).await;
        assert!(said.expect("an answer").admitted);
    }
    assert_eq!(server.keys().expect("keys").len(), LIMITS.len());
    let shaken = RedisServer::start(Flavour::Redis).expect("Redis starts");
    shake(client, &shaken).await;
    let keys = keys_ever(&shaken);
    assert!(keys >= 3 * LIMITS.len(), "{keys} keys");
    sleep(Duration::from_secs(2) + SPARE).await;
    for server in [&server, &shaken] {
        assert_eq!(server.keys().expect("keys"), Vec::<Vec<u8>>::new());
    }
}

/// Returns how many keys there are, and were until they expired.
fn keys_ever(server: &RedisServer) -> usize {
    let stats = server.info("stats").expect("stats");
    let expired: usize = stats["expired_keys"].parse().expect("a number");
    server.keys().expect("keys").len() + expired
}

/// Kills the server and starts it again, then makes calls whose replies are lost or cut, and calls that are given up.
async fn shake(client: Client, server: &RedisServer) {
    let proxy = FaultProxy::start(server.addr()).await.expect("a proxy");
    let store = client.store(&server.url_at(proxy.addr()), &layout(), PATIENT);
    let probe = plan("gold", "10/s");
    recovers(&store, &probe, PATIENT).await;
    server.kill();
    let error = spend(&store, &key("ann"), &probe).await;
    assert!(error.expect_err("killed").is_outage());
    server.restart().expect("starts again");
    for fault in [
        ReplyFault::Lost(Ending::Reset),
        ReplyFault::CutAfter { bytes: 5 },
    ] {
        for limit in LIMITS {
            // With the plan itself, so that the server knows the script when it counts.
            recovers(&store, &plan("gold", limit), PATIENT).await;
            proxy.add_rule(ReplyRule::next(1, fault.clone()).to_command("EVALSHA"));
            let user = key(&format!("{limit} {fault:?}"));
            let error = spend(&store, &user, &plan("gold", limit)).await;
            assert!(error.expect_err("no reply").may_have_charged());
            proxy.heal();
        }
    }
    recovers(&store, &probe, PATIENT).await;
    let patient = client.store(&server.url(), &layout(), PATIENT);
    for limit in LIMITS {
        // The first call loads the script and is answered; the second is given up as soon as it is sent.
        let (user, gold) = (key(limit), plan("gold", limit));
        let said = spend(&patient, &user, &gold).await;
        assert!(said.expect("an answer").admitted);
        let _ = spend(&patient, &user, &gold).now_or_never();
    }
}
