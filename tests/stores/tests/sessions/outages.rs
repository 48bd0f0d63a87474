//! Servers that are gone, hang, lose replies or forget scripts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use limiter_core::{StoreError, Timestamp};
use limiter_sessions::{Anomaly, Label, NonceUse, SessionService, Severity};
use limiter_store_tests::{
    DEADLINE, PATIENT, Sessions, Stage, UNHURRIED, faults_on_clients,
    faults_on_clients_and_servers, in_time, key, layout,
};
use limiter_testkit::proxy::{Ending, ReplyFault, ReplyRule};
use limiter_testkit::server::RedisServer;

use crate::{KEEP, connected, nonce, visit};

faults_on_clients! {
    no_nonce_is_accepted_while_the_cluster_is_down
    nonce_whose_reply_was_lost_is_used_up
    observed_once_although_the_reply_was_lost
    calls_end_by_their_deadline_on_a_server_that_hangs
    scripts_that_the_server_forgot_are_loaded_again
}

faults_on_clients_and_servers! {
    no_nonce_is_accepted_while_the_server_is_down
}

async fn no_nonce_is_accepted_while_the_server_is_down(stage: &Stage) {
    let server = stage.server();
    let store = stage.client.sessions(&server.url(), &layout(), DEADLINE);
    none_accepted_while_down(store, || server.kill()).await;
}

async fn no_nonce_is_accepted_while_the_cluster_is_down(stage: &Stage) {
    let cluster = stage.cluster();
    let store = stage
        .client
        .sessions(&cluster.address(), &layout(), DEADLINE);
    none_accepted_while_down(store, || cluster.nodes().for_each(RedisServer::kill)).await;
}

/// Several callers use up nonces while the store's servers are killed: from then on nothing is accepted.
async fn none_accepted_while_down(store: Sessions, kill: impl FnOnce()) {
    const CALLERS: u32 = 8;
    connected(&store).await;
    let service = Arc::new(SessionService::on(store));
    let [is_down, stop] = std::array::from_fn(|_| Arc::new(AtomicBool::new(false)));
    let [accepted, refused] = std::array::from_fn(|_| Arc::new(AtomicU32::new(0)));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (service, is_down, stop) = (service.clone(), is_down.clone(), stop.clone());
            let (accepted, refused) = (accepted.clone(), refused.clone());
            tokio::spawn(async move {
                for nth in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let began_down = is_down.load(Ordering::SeqCst);
                    let (scope, nonce) = (key("form"), nonce(caller * 1_000_000 + nth));
                    let verdict = service.verify_nonce(&scope, &nonce).await;
                    if began_down {
                        assert!(!verdict.is_accepted(), "accepted while down");
                        refused.fetch_add(1, Ordering::SeqCst);
                    } else if verdict.is_accepted() {
                        accepted.fetch_add(1, Ordering::SeqCst);
                    }
                }
            })
        })
        .collect();
    reaches(&accepted, 100).await;
    kill();
    is_down.store(true, Ordering::SeqCst);
    // Long enough to connect again, and for late replies.
    tokio::time::sleep(Duration::from_millis(200)).await;
    reaches(&refused, 100).await;
    stop.store(true, Ordering::SeqCst);
    for caller in callers {
        caller.await.expect("no caller panics");
    }
}

/// Waits until so many were counted.
async fn reaches(count: &AtomicU32, enough: u32) {
    let began = Instant::now();
    while count.load(Ordering::SeqCst) < enough {
        assert!(began.elapsed() < PATIENT, "{count:?} of {enough}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A nonce whose reply was lost is an error, and used up: sending it again is a replay.
async fn nonce_whose_reply_was_lost_is_used_up(stage: &Stage) {
    for ending in [Ending::Hang, Ending::Close, Ending::Reset] {
        let (layout, (server, proxy)) = (layout(), stage.proxied().await);
        let store = stage
            .client
            .sessions(&server.url_at(proxy.addr()), &layout, UNHURRIED);
        connected(&store).await;
        proxy.add_rule(ReplyRule::next(1, ReplyFault::Lost(ending)).to_command("SET"));
        let lost = store.consume(&key("form"), &nonce(1), KEEP).await;
        assert!(lost.expect_err("the reply is lost").may_have_charged());
        let direct = stage.client.sessions(&server.url(), &layout, PATIENT);
        let again = direct.consume(&key("form"), &nonce(1), KEEP).await;
        assert_eq!(again.expect("an answer"), NonceUse::Replay, "{ending:?}");
        assert_eq!(proxy.requests_of("SET"), 1, "it was sent again: {ending:?}");
    }
}

/// A visit whose reply was lost counts once, and the error says that it may have.
async fn observed_once_although_the_reply_was_lost(stage: &Stage) {
    for ending in [Ending::Hang, Ending::Close, Ending::Reset] {
        let (layout, (server, proxy)) = (layout(), stage.proxied().await);
        let store = stage
            .client
            .sessions(&server.url_at(proxy.addr()), &layout, UNHURRIED);
        connected(&store).await;
        proxy.add_rule(ReplyRule::next(1, ReplyFault::Lost(ending)).to_command("EVALSHA"));
        let lost = store.observe(&visit(), KEEP).await;
        assert!(lost.expect_err("the reply is lost").may_have_charged());
        let direct = stage.client.sessions(&server.url(), &layout, PATIENT);
        let seen = direct.observe(&visit(), KEEP).await.expect("an answer");
        let counted = (seen.is_new, seen.session.request_count);
        assert_eq!(counted, (false, 2), "{ending:?}");
    }
}

/// Whatever is asked of a server that hangs, the answer is an error, in time.
async fn calls_end_by_their_deadline_on_a_server_that_hangs(stage: &Stage) {
    let server = stage.server();
    let layout = layout();
    let store = stage.client.sessions(&server.url(), &layout, DEADLINE);
    connected(&store).await;
    let patient = stage.client.sessions(&server.url(), &layout, PATIENT);
    let seen = patient.observe(&visit(), KEEP).await;
    let id = seen.expect("an answer").session.id;
    let (bots, visit) = (Label::new("bots").expect("a label"), visit());
    let anomaly = Anomaly::new(Severity::Low, bots.clone());
    server.pause().expect("the server pauses");
    fails_in_time("observe", store.observe(&visit, KEEP)).await;
    fails_in_time("touch", store.touch(&id, KEEP)).await;
    fails_in_time("get", store.get(&id)).await;
    fails_in_time("end", store.end(&id)).await;
    fails_in_time("by_fingerprint", store.by_fingerprint(&visit.fingerprint)).await;
    fails_in_time("consume", store.consume(&key("form"), &nonce(1), KEEP)).await;
    fails_in_time("signal", store.signal(visit.ip)).await;
    fails_in_time("push", store.push(&anomaly)).await;
    fails_in_time("recent", store.recent(Severity::Low, Timestamp::EPOCH, 9)).await;
    fails_in_time("join", store.join(&bots, &visit.fingerprint, KEEP)).await;
    fails_in_time("members", store.members(&bots)).await;
    fails_in_time("stats", store.stats(1)).await;
    server.resume().expect("the server goes on");
}

async fn fails_in_time<T>(what: &str, call: impl Future<Output = Result<T, StoreError>>) {
    let said = in_time(call).await;
    assert!(
        said.is_err_and(|error| error.is_outage()),
        "{what} was answered"
    );
}

/// A server that lost its scripts gets them again, in the same call.
async fn scripts_that_the_server_forgot_are_loaded_again(stage: &Stage) {
    let server = stage.server();
    let store = stage.client.sessions(&server.url(), &layout(), PATIENT);
    for count in 1..=5 {
        server.script_flush().expect("SCRIPT FLUSH");
        let seen = store.observe(&visit(), KEEP).await.expect("an answer");
        assert_eq!(seen.session.request_count, count);
    }
}
