//! Who comes together is read together, and gets a reply of their own.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use limiter_core::{Cost, Key, Plan};
use limiter_sessions::{Retention, Visit};
use limiter_store_tests::{Client, PATIENT, bucket, layout, plan};
use limiter_testkit::server::{Flavour, RedisServer};

use crate::{CALLS, all_at_once, started, stat, user, users, visit, warmed_up};

/// How often the server may read for all of them. It would be as many as there are calls if each were sent by itself.
const MOST_READS: u64 = 16;

on_clients_and_old_servers_too! {
    calls_that_are_made_together_are_read_together
    each_call_gets_its_own_reply
    calls_of_one_script_are_one_call_unless_kept_apart
    lone_node_of_a_cluster_answers_all
    visits_that_come_together_are_read_together
}

fn reads(server: &RedisServer) -> u64 {
    stat(server, "total_reads_processed")
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

/// Returns how many script calls the server has run.
fn script_calls(server: &RedisServer) -> u64 {
    let stats = server.info("commandstats").expect("stats");
    let stat = stats.get("cmdstat_evalsha");
    let calls = stat.and_then(|stat| stat.strip_prefix("calls=")?.split(',').next());
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

async fn calls_of_one_script_are_one_call_unless_kept_apart(client: Client, flavour: Flavour) {
    let (server, layout, joined) = started(client, flavour);
    let apart = client.store_apart(&server.url(), &layout, PATIENT);
    let plans = [bucket(100)];
    let mut run = Vec::new();
    for store in [&joined, &apart] {
        warmed_up(store, &plans).await;
        let before = script_calls(&server);
        for said in all_at_once(store, &users(), &plans).await {
            assert!(said.expect("an answer").admitted);
        }
        run.push(script_calls(&server) - before);
    }
    assert!(
        run[0] <= MOST_READS,
        "{run:?} calls of a script for {CALLS}"
    );
    assert_eq!(run[1], u64::from(CALLS));
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
        [bucket(1000 + nth)].into_iter().chain(other).collect()
    };
    let asked: Vec<(Key, Vec<Plan>)> = (0..CALLS).map(|nth| (user(nth), plans(nth))).collect();
    // And another cost: who had spent alike could not tell their replies apart.
    let cost = |nth: u32| Cost::new(nth + 1).expect("a cost");
    for round in 1..=3 {
        let calls = (0..).zip(&asked);
        let calls = calls.map(|(nth, (user, plans))| store.try_acquire(user, plans, cost(nth)));
        for (nth, said) in (0..CALLS).zip(join_all(calls).await) {
            let (verdict, spent) = (said.expect("an answer"), round * (nth + 1));
            assert_eq!(verdict.plans[0].remaining, 1000 + nth - spent, "call {nth}");
        }
    }
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
