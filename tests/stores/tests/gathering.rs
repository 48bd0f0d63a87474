//! Calls that are made at the same time share round trips: the server reads many at once, each gets its own reply, and one
//! that fails spoils no other.
#![cfg(test)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use limiter_core::{Cost, Key, Plan, StoreError, Verdict};
use limiter_lua::{KeyLayout, Script};
use limiter_sessions::{Retention, Visit};
use limiter_store_tests::{
    Client, PATIENT, Store, bucket, key, layout, no_immortal_keys, on_clients_and_servers, plan,
    spent,
};
use limiter_testkit::proxy::{Direction, Ending, FaultProxy, Toxic};
use limiter_testkit::server::{Flavour, RedisServer, Reply};

/// How many calls are made at the same time.
const CALLS: u32 = 64;
/// How often the server may read for all of them. It would be as many as there are calls if each were sent by itself.
const MOST_READS: u64 = 16;

on_clients_and_servers! {
    calls_that_are_made_together_are_read_together
    each_call_gets_its_own_reply
    call_that_fails_spoils_no_other
    calls_run_once_on_a_server_that_forgot_the_scripts
    calls_run_once_on_a_server_that_keeps_forgetting_the_scripts
    calls_that_lack_memory_say_so_and_charge_nothing
    calls_on_a_demoted_server_charge_nothing
    calls_without_permission_say_so_and_charge_nothing
    script_at_fault_spoils_no_other
    lone_node_of_a_cluster_answers_all
    lost_replies_are_charged_once_and_said
    visits_that_come_together_are_read_together
    runtime_that_ends_under_load_ends
}

// The oldest server says otherwise what went wrong inside a script.
on_clients_and_servers! {
    @redis_rs_on_redis_6_2 Redis Redis62
    calls_that_are_made_together_are_read_together
    each_call_gets_its_own_reply
    call_that_fails_spoils_no_other
    calls_run_once_on_a_server_that_forgot_the_scripts
    calls_run_once_on_a_server_that_keeps_forgetting_the_scripts
    calls_that_lack_memory_say_so_and_charge_nothing
    calls_on_a_demoted_server_charge_nothing
    calls_without_permission_say_so_and_charge_nothing
    script_at_fault_spoils_no_other
    lone_node_of_a_cluster_answers_all
    visits_that_come_together_are_read_together
}

on_clients_and_servers! {
    @fred_on_redis_6_2 Fred Redis62
    calls_that_are_made_together_are_read_together
    each_call_gets_its_own_reply
    call_that_fails_spoils_no_other
    calls_run_once_on_a_server_that_forgot_the_scripts
    calls_run_once_on_a_server_that_keeps_forgetting_the_scripts
    calls_that_lack_memory_say_so_and_charge_nothing
    calls_on_a_demoted_server_charge_nothing
    calls_without_permission_say_so_and_charge_nothing
    script_at_fault_spoils_no_other
    lone_node_of_a_cluster_answers_all
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

fn stat(server: &RedisServer, name: &str) -> u64 {
    let stats = server.info("stats").expect("stats");
    stats[name].parse().expect("a number")
}

fn reads(server: &RedisServer) -> u64 {
    stat(server, "total_reads_processed")
}

/// How many connections were ever made, those of the test itself included.
fn connections(server: &RedisServer) -> u64 {
    stat(server, "total_connections_received")
}

fn users() -> Vec<Key> {
    (0..CALLS).map(user).collect()
}

/// Lets each user make a call at the same time: from one task, so that no thread is free to send some while others are made.
async fn all_at_once(
    store: &Store,
    users: &[Key],
    plans: &[Plan],
) -> Vec<Result<Verdict, StoreError>> {
    let (store, users, plans) = (Arc::clone(store), users.to_vec(), plans.to_vec());
    let calls = tokio::spawn(async move {
        let calls = users.iter();
        join_all(calls.map(|user| store.try_acquire(user, &plans, Cost::ONE))).await
    });
    calls.await.expect("no panic")
}

/// Checks that nothing was charged to any user.
async fn nothing_is_spent(store: &Store, users: &[Key], plan: &Plan) {
    for user in users {
        assert_eq!(spent(store, user, plan).await, 0);
    }
}

async fn calls_that_are_made_together_are_read_together(client: Client, flavour: Flavour) {
    let (server, _, store) = started(client, flavour);
    let plans = [bucket(10)];
    warmed_up(&store, &plans).await;
    let before = reads(&server);
    for said in all_at_once(&store, &users(), &plans).await {
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
    let observed = tokio::spawn(async move {
        let calls = many.iter();
        join_all(calls.map(|visit| sessions.observe(visit, Retention::HOUR))).await
    });
    let observed = observed.await.expect("no panic");
    let reads = reads(&server) - before;
    let ids = observed.into_iter().map(|seen| seen.expect("an answer"));
    let ids: std::collections::HashSet<_> = ids.map(|seen| seen.session.id).collect();
    assert_eq!(ids.len(), CALLS as usize, "each visitor has a session");
    assert!(reads <= MOST_READS, "{reads} reads for {CALLS} visits");
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
    // One that is on its way when time is up may reach a primary yet; it takes luck if all of them are.
    for _ in 0..5 {
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
    assert!(!sure.is_empty(), "no call heard what the server said");
    sure.retain(|user| !open.contains(user));
    server.promote().expect("promoted");
    nothing_is_spent(&patient, &sure, &plans[0]).await;
}

async fn calls_without_permission_say_so_and_charge_nothing(client: Client, flavour: Flavour) {
    let all = "on >secret ~* resetchannels -@all +evalsha +eval +hget +hmget +hset +hdel +pttl +pexpire +time +ping";
    for lacking in ["hset", "hget", "pexpire"] {
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

fn visit(nth: u32) -> Visit {
    let fingerprint = format!("{nth:064x}").parse().expect("a fingerprint");
    Visit::new(fingerprint, "203.0.113.9".parse().expect("an address"))
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

/// One node that serves all slots, reached as if it were no cluster: it takes no call whose keys are of several slots.
async fn lone_node_of_a_cluster_answers_all(client: Client, flavour: Flavour) {
    let server = RedisServer::builder(flavour)
        .with_config("cluster-enabled yes")
        .start()
        .expect("a server");
    let words = ["CLUSTER", "ADDSLOTS"].map(str::to_owned).into_iter();
    let slots = (0..16_384).map(|slot: u32| slot.to_string());
    server
        .command(&words.chain(slots).collect::<Vec<_>>())
        .expect("slots");
    let began = Instant::now();
    let is_up = || server.command(&["CLUSTER", "INFO"]).expect("info").text();
    while !is_up().is_some_and(|info| info.contains("cluster_state:ok")) {
        assert!(began.elapsed() < Duration::from_secs(30), "no cluster");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let store = client.store(&server.url(), &layout(), PATIENT);
    let (plans, users) = ([bucket(10)], users());
    for spent in 1..=3 {
        for said in all_at_once(&store, &users, &plans).await {
            assert_eq!(said.expect("an answer").plans[0].remaining, 10 - spent);
        }
    }
}

/// No reply gets through, and the connection ends when the server has run every call.
async fn lost_replies_are_charged_once_and_said(client: Client, flavour: Flavour) {
    for ending in [Ending::Close, Ending::Reset, Ending::Hang] {
        let server = RedisServer::start(flavour).expect("a server");
        let proxy = FaultProxy::start(server.addr()).await.expect("a proxy");
        let (layout, plans, users) = (layout(), [bucket(10)], users());
        let deadline = match ending {
            // What never answers is given up when time is up.
            Ending::Hang => Duration::from_secs(2),
            Ending::Close | Ending::Reset => PATIENT,
        };
        let store = client.store(&server.url_at(proxy.addr()), &layout, deadline);
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

/// Loads every script in both forms.
fn knows_the_scripts(server: &RedisServer) {
    let loaded = |text: &str| server.command(&["SCRIPT", "LOAD", text]).expect("loads");
    for script in Script::ALL.into_iter().chain(Script::SESSIONS) {
        let (alone, batch) = (loaded(script.text()), loaded(script.batch_text()));
        assert_eq!(alone.text().as_deref(), Some(script.sha1()), "{script:?}");
        let sha1 = script.batch_sha1();
        assert_eq!(batch.text().as_deref(), Some(sha1), "{script:?}");
    }
}

#[test]
fn every_script_is_known_by_its_name_in_both_forms_on_every_server() {
    for flavour in Flavour::ALL {
        knows_the_scripts(&RedisServer::start(flavour).expect("a server"));
    }
}
