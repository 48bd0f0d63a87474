//! Calls that are made at the same time share round trips: the server reads many at once, each gets its own reply, and one
//! that fails spoils no other.
#![cfg(test)]

use futures_util::future::join_all;
use limiter_core::{Cost, Key, Plan};
use limiter_lua::KeyLayout;
use limiter_sessions::{Retention, Visit};
use limiter_store_tests::{
    Client, PATIENT, Store, bucket, key, layout, no_immortal_keys, on_clients_and_servers, plan,
};
use limiter_testkit::server::{Flavour, RedisServer};

/// How many calls are made at the same time.
const CALLS: u32 = 64;
/// How often the server may read for all of them. It would be as many as there are calls if each were sent by itself.
const MOST_READS: u64 = 16;

on_clients_and_servers! {
    calls_that_are_made_together_are_read_together
    each_call_gets_its_own_reply
    call_that_fails_spoils_no_other
    calls_run_once_on_a_server_that_forgot_the_scripts
    visits_that_come_together_are_read_together
}

fn started(client: Client, flavour: Flavour) -> (RedisServer, KeyLayout, Store) {
    let server = RedisServer::start(flavour).expect("a server");
    let layout = layout();
    let store = client.store(&server.url(), &layout, PATIENT);
    (server, layout, store)
}

fn user(nth: u32) -> Key {
    key(&format!("user-{nth}"))
}

/// Connects, and makes the scripts known in every form that is used.
async fn warmed_up(store: &Store, plans: &[Plan]) {
    for calls in [1, 4] {
        let warm = key("warm");
        let calls = (0..calls).map(|_| store.try_acquire(&warm, plans, Cost::ONE));
        for said in join_all(calls).await {
            assert!(said.expect("an answer").admitted);
        }
    }
}

fn reads(server: &RedisServer) -> u64 {
    let stats = server.info("stats").expect("stats");
    stats["total_reads_processed"].parse().expect("a number")
}

async fn calls_that_are_made_together_are_read_together(client: Client, flavour: Flavour) {
    let (server, _, store) = started(client, flavour);
    let plans = [bucket(10)];
    warmed_up(&store, &plans).await;
    let users: Vec<Key> = (0..CALLS).map(user).collect();
    let before = reads(&server);
    let calls = users
        .iter()
        .map(|user| store.try_acquire(user, &plans, Cost::ONE));
    for said in join_all(calls).await {
        assert!(said.expect("an answer").admitted);
    }
    let reads = reads(&server) - before;
    assert!(reads <= MOST_READS, "{reads} reads for {CALLS} calls");
}

async fn each_call_gets_its_own_reply(client: Client, flavour: Flavour) {
    let (_server, _, store) = started(client, flavour);
    // Chains of different lengths and forms: different scripts, and different arguments for each.
    let plans = |nth: u32| -> Vec<Plan> {
        let other = match nth % 4 {
            0 => None,
            1 => Some(plan("silver", "1/h burst 1000")),
            2 => Some(plan("silver", "sliding 1000/h")),
            _ => Some(plan("silver", "fixed 1000/h")),
        };
        [bucket(100 + nth)].into_iter().chain(other).collect()
    };
    let asked: Vec<(Key, Vec<Plan>)> = (0..CALLS).map(|nth| (user(nth), plans(nth))).collect();
    for spent in 1..=3 {
        let calls = asked
            .iter()
            .map(|(user, plans)| store.try_acquire(user, plans, Cost::ONE));
        for (nth, said) in (0..CALLS).zip(join_all(calls).await) {
            let verdict = said.expect("an answer");
            assert_eq!(verdict.plans[0].remaining, 100 + nth - spent, "call {nth}");
        }
    }
}

async fn call_that_fails_spoils_no_other(client: Client, flavour: Flavour) {
    let (server, layout, store) = started(client, flavour);
    let plans = [bucket(10)];
    warmed_up(&store, &plans).await;
    let users: Vec<Key> = (0..CALLS).map(user).collect();
    let set = |nth: usize, value: &[u8]| {
        let name = layout.name(&users[nth]);
        let set: [&[u8]; 5] = [b"SET", &name, value, b"PX", b"60000"];
        server.command(&set).expect("set");
    };
    // Not a hash; and a state of a later version.
    set(20, b"a text");
    let name = layout.name(&users[40]);
    let newer: [&[u8]; 4] = [b"HSET", &name, b"gold", b"\x21 of a later version"];
    server.command(&newer).expect("set");
    let expire: [&[u8]; 3] = [b"PEXPIRE", &name, b"60000"];
    server.command(&expire).expect("set");
    for spent in 1..=2 {
        let calls = users
            .iter()
            .map(|user| store.try_acquire(user, &plans, Cost::ONE));
        for (nth, said) in join_all(calls).await.into_iter().enumerate() {
            if nth == 20 || nth == 40 {
                let error = said.expect_err("the state is not one of ours");
                assert!(!error.is_outage() && !error.may_have_charged(), "{error:?}");
            } else {
                let verdict = said.expect("an answer");
                assert_eq!(verdict.plans[0].remaining, 10 - spent, "call {nth}");
            }
        }
    }
    no_immortal_keys(&server);
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

async fn visits_that_come_together_are_read_together(client: Client, flavour: Flavour) {
    let server = RedisServer::start(flavour).expect("a server");
    let sessions = client.sessions(&server.url(), &layout(), PATIENT);
    let visit = |nth: u32| {
        let fingerprint = format!("{nth:064x}").parse().expect("a fingerprint");
        Visit::new(fingerprint, "203.0.113.9".parse().expect("an address"))
    };
    let (few, many): (Vec<Visit>, Vec<Visit>) = (
        (0..4).map(visit).collect(),
        (100..100 + CALLS).map(visit).collect(),
    );
    for visit in join_all(
        few.iter()
            .map(|visit| sessions.observe(visit, Retention::HOUR)),
    )
    .await
    {
        assert!(visit.expect("an answer").is_new);
    }
    let before = reads(&server);
    let observed = many
        .iter()
        .map(|visit| sessions.observe(visit, Retention::HOUR));
    let observed = join_all(observed).await;
    let reads = reads(&server) - before;
    let ids = observed.into_iter().map(|seen| seen.expect("an answer"));
    let ids: std::collections::HashSet<_> = ids.map(|seen| seen.session.id).collect();
    assert_eq!(ids.len(), many.len(), "each visitor has a session");
    assert!(reads <= MOST_READS, "{reads} reads for {CALLS} visits");
}
