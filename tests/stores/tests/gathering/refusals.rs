//! Calls that the server refuses, or breaks off: one spoils no other, and none charges.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use limiter_core::{Cost, Key, Plan, StoreError};
use limiter_sessions::{Retention, Visit};
use limiter_store_tests::{Client, PATIENT, Store, bucket, layout, no_immortal_keys, spent};
use limiter_testkit::server::{Flavour, RedisServer, Reply};

use crate::{CALLS, all_at_once, connections, started, user, users, visit, warmed_up};

on_clients_and_old_servers_too! {
    call_that_fails_spoils_no_other
    calls_that_lack_memory_say_so_and_charge_nothing
    calls_on_a_demoted_server_charge_nothing
    calls_without_permission_say_so_and_charge_nothing
    script_at_fault_spoils_no_other
}

/// Checks that nothing was charged to any user.
async fn nothing_is_spent(store: &Store, users: &[Key], plan: &Plan) {
    for user in users {
        assert_eq!(spent(store, user, plan).await, 0);
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

async fn calls_that_lack_memory_say_so_and_charge_nothing(client: Client, flavour: Flavour) {
    let (server, _, store) = started(client, flavour);
    let (plans, users) = ([bucket(10)], users());
    warmed_up(&store, &plans).await;
    let before = connections(&server);
    server.config_set("maxmemory", "1").expect("set");
    for said in all_at_once(&store, &users, &plans).await {
        let error = said.expect_err("no memory");
        let is_overloaded = matches!(error, StoreError::Overloaded { .. });
        assert!(is_overloaded && !error.may_have_charged(), "{error:?}");
    }
    server.config_set("maxmemory", "0").expect("set");
    assert_eq!(connections(&server), before, "the connection is good still");
    nothing_is_spent(&store, &users, &plans[0]).await;
}

async fn calls_on_a_demoted_server_charge_nothing(client: Client, flavour: Flavour) {
    let (server, layout, patient) = started(client, flavour);
    let (plans, users) = ([bucket(10)], users());
    warmed_up(&patient, &plans).await;
    // Calls are made again until the deadline, for another server may be the primary by then.
    let store = client.store(&server.url(), &layout, Duration::from_millis(300));
    server.demote().expect("demoted");
    let (mut sure, mut open) = (Vec::new(), Vec::new());
    let (began, mut rounds) = (Instant::now(), 0);
    // One that is on its way when time is up may reach a primary yet; it takes luck if all of them are.
    while rounds < 5 || sure.is_empty() {
        assert!(began.elapsed() < 2 * PATIENT, "no call heard the server");
        rounds += 1;
        for (user, said) in users.iter().zip(all_at_once(&store, &users, &plans).await) {
            let error = said.expect_err("read-only");
            assert!(error.is_outage(), "{error:?}");
            let said = if error.may_have_charged() {
                &mut open
            } else {
                &mut sure
            };
            said.push(user.clone());
        }
    }
    sure.retain(|user| !open.contains(user));
    server.promote().expect("promoted");
    nothing_is_spent(&patient, &sure, &plans[0]).await;
}

async fn calls_without_permission_say_so_and_charge_nothing(client: Client, flavour: Flavour) {
    let all = "on >secret ~* resetchannels -@all +evalsha +eval +hget +hmget +hset +hdel +pttl +pexpire +time +ping";
    for lacking in ["hset", "hget", "pexpire", "time"] {
        let server = RedisServer::builder(flavour)
            .with_acl_user(format!("limiter {all} -{lacking}"))
            .start()
            .expect("starts");
        let layout = layout();
        let store = client.store(&server.url_as("limiter", "secret"), &layout, PATIENT);
        let (plans, users) = ([bucket(10)], users());
        // Not a call succeeds: the scripts get known by those that fail.
        for _ in 0..2 {
            all_at_once(&store, &users, &plans).await;
        }
        let before = connections(&server);
        for said in all_at_once(&store, &users, &plans).await {
            let error = said.expect_err(lacking);
            let is_misconfigured = matches!(error, StoreError::Misconfigured { .. });
            assert!(
                is_misconfigured && !error.may_have_charged(),
                "without {lacking}: {error:?}"
            );
        }
        assert_eq!(connections(&server), before, "the connection is good still");
        nothing_is_spent(
            &client.store(&server.url(), &layout, PATIENT),
            &users,
            &plans[0],
        )
        .await;
        no_immortal_keys(&server);
    }
}

/// A session that ends at no number: the script comes to compare it with one, and breaks off.
async fn script_at_fault_spoils_no_other(client: Client, flavour: Flavour) {
    let server = RedisServer::start(flavour).expect("a server");
    let sessions = client.sessions(&server.url(), &layout(), PATIENT);
    let visits: Vec<Visit> = (0..CALLS).map(visit).collect();
    let damaged = sessions.observe(&visits[20], Retention::HOUR).await;
    assert!(damaged.expect("an answer").is_new);
    for name in server.keys().expect("keys") {
        let of_type: [&[u8]; 2] = [b"TYPE", &name];
        let is_hash = server.command(&of_type).expect("a type").text().as_deref() == Some("hash");
        let ends: [&[u8]; 3] = [b"HEXISTS", &name, b"expires"];
        if is_hash && server.command(&ends).expect("an answer") == Reply::Int(1) {
            let never: [&[u8]; 4] = [b"HSET", &name, b"expires", b"never"];
            server.command(&never).expect("set");
        }
    }
    let mut before = None;
    for is_new in [true, false] {
        let calls = visits.iter();
        let calls = calls.map(|visit| sessions.observe(visit, Retention::HOUR));
        for (nth, said) in join_all(calls).await.into_iter().enumerate() {
            if nth == 20 {
                let error = said.expect_err("the session is not one of ours");
                assert!(error.is_outage() && error.may_have_charged(), "{error:?}");
            } else {
                assert_eq!(said.expect("an answer").is_new, is_new, "visit {nth}");
            }
        }
        let now = connections(&server);
        assert_eq!(*before.get_or_insert(now), now, "one connection for all");
    }
    assert!(connections(&server) <= 3, "one for all, and the test's own");
}
