//! Stores of sessions on servers that fail, and on the server's own clock.
#![cfg(test)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use limiter_core::{Key, StoreError, Timestamp};
use limiter_lua::{KeyLayout, SessionNames};
use limiter_sessions::{
    Anomaly, BY_FINGERPRINT_MAX, BotProbability, Label, Nonce, NonceUse, Retention, SessionId,
    SessionService, Severity, TagKey, Visit,
};
use limiter_store_tests::{
    Client, DEADLINE, PATIENT, Sessions, in_time, key, layout, no_immortal_keys, on_clients,
    on_clients_and_servers,
};
use limiter_testkit::proxy::{Direction, Ending, FaultProxy, ReplyFault, ReplyRule, Toxic};
use limiter_testkit::server::{Flavour, RedisCluster, RedisServer, Reply};

on_clients! {
    no_nonce_is_accepted_while_the_cluster_is_down
    nonce_whose_reply_was_lost_is_used_up
    observed_once_although_the_reply_was_lost
    calls_end_by_their_deadline_on_a_server_that_hangs
    stats_of_many_keys_end_by_their_deadline
    stats_of_nodes_that_tell_no_address_are_an_error
    keys_live_as_long_as_the_servers_clock_says
    session_of_another_version_is_told
    corrupt_session_is_told
    user_who_may_not_expire_leaves_nothing_for_ever
    server_that_lacks_memory_refuses_as_a_whole
    user_with_the_published_permissions
    visit_beside_a_key_of_another_type_is_told_truly
    scripts_that_the_server_forgot_are_loaded_again
    session_in_a_moving_slot_is_counted_exactly
    new_session_in_a_moving_slot_fails_in_time_and_does_not_count
}

on_clients_and_servers! {
    no_nonce_is_accepted_while_the_server_is_down
}

const KEEP: Retention = Retention::HOUR;

fn redis() -> RedisServer {
    RedisServer::start(Flavour::Redis).expect("Redis starts")
}

fn visit() -> Visit {
    visit_of("ab")
}

fn visit_of(face: &str) -> Visit {
    let fingerprint = face.repeat(32).parse().expect("a fingerprint");
    Visit::new(fingerprint, "203.0.113.9".parse().expect("an address"))
}

fn nonce(nth: u32) -> Nonce {
    Nonce::new(&format!("n-{nth}")).expect("a nonce")
}

/// Observes somebody else until the store answers.
async fn connected(store: &Sessions) {
    let began = Instant::now();
    while let Err(error) = store.observe(&visit_of("cd"), KEEP).await {
        assert!(began.elapsed() < PATIENT, "no connection: {error:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn no_nonce_is_accepted_while_the_server_is_down(client: Client, flavour: Flavour) {
    let server = RedisServer::start(flavour).expect("the server starts");
    let store = client.sessions(&server.url(), &layout(), DEADLINE);
    none_accepted_while_down(store, || server.kill()).await;
}

async fn no_nonce_is_accepted_while_the_cluster_is_down(client: Client) {
    let cluster = RedisCluster::start(Flavour::Redis).expect("a cluster");
    let store = client.sessions(&cluster.address(), &layout(), DEADLINE);
    none_accepted_while_down(store, || cluster.nodes().for_each(RedisServer::kill)).await;
}

/// Several callers use up nonces while the store's servers are killed: from then on nothing is accepted.
async fn none_accepted_while_down(store: Sessions, kill: impl FnOnce()) {
    const CALLERS: u32 = 8;
    connected(&store).await;
    let service = Arc::new(SessionService::on(store));
    let is_down = Arc::new(AtomicBool::new(false));
    let stop = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (service, is_down, stop) = (service.clone(), is_down.clone(), stop.clone());
            tokio::spawn(async move {
                let (mut before, mut during) = (0_u32, 0_u32);
                for nth in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let began_down = is_down.load(Ordering::SeqCst);
                    let (scope, nonce) = (key("form"), nonce(caller * 1_000_000 + nth));
                    let verdict = service.verify_nonce(&scope, &nonce).await;
                    if began_down {
                        assert!(!verdict.is_accepted(), "accepted while down");
                        during += 1;
                    } else {
                        before += u32::from(verdict.is_accepted());
                    }
                }
                (before, during)
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    kill();
    is_down.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(200)).await;
    stop.store(true, Ordering::SeqCst);
    let (mut before, mut during) = (0, 0);
    for caller in callers {
        let (accepted, refused) = caller.await.expect("no caller panics");
        before += accepted;
        during += refused;
    }
    assert!(before > 0 && during > 0, "{before} before, {during} during");
}

/// A nonce whose reply was lost is an error, and used up: sending it again is a replay.
async fn nonce_whose_reply_was_lost_is_used_up(client: Client) {
    for ending in [Ending::Hang, Ending::Close, Ending::Reset] {
        let (server, layout) = (redis(), layout());
        let proxy = FaultProxy::start(server.addr()).await.expect("a proxy");
        let store = client.sessions(&server.url_at(proxy.addr()), &layout, DEADLINE);
        connected(&store).await;
        proxy.add_rule(ReplyRule::next(1, ReplyFault::Lost(ending)).to_command("SET"));
        let lost = store.consume(&key("form"), &nonce(1), KEEP).await;
        assert!(lost.expect_err("the reply is lost").may_have_charged());
        let direct = client.sessions(&server.url(), &layout, PATIENT);
        let again = direct.consume(&key("form"), &nonce(1), KEEP).await;
        assert_eq!(again.expect("an answer"), NonceUse::Replay, "{ending:?}");
        assert_eq!(proxy.requests_of("SET"), 1, "it was sent again: {ending:?}");
    }
}

/// A visit whose reply was lost counts once, and the error says that it may have.
async fn observed_once_although_the_reply_was_lost(client: Client) {
    for ending in [Ending::Hang, Ending::Close, Ending::Reset] {
        let (server, layout) = (redis(), layout());
        let proxy = FaultProxy::start(server.addr()).await.expect("a proxy");
        let store = client.sessions(&server.url_at(proxy.addr()), &layout, DEADLINE);
        connected(&store).await;
        proxy.add_rule(ReplyRule::next(1, ReplyFault::Lost(ending)).to_command("EVALSHA"));
        let lost = store.observe(&visit(), KEEP).await;
        assert!(lost.expect_err("the reply is lost").may_have_charged());
        let direct = client.sessions(&server.url(), &layout, PATIENT);
        let seen = direct.observe(&visit(), KEEP).await.expect("an answer");
        let counted = (seen.is_new, seen.session.request_count);
        assert_eq!(counted, (false, 2), "{ending:?}");
        no_immortal_keys(&server);
    }
}

/// Whatever is asked of a server that hangs, the answer is an error, in time.
async fn calls_end_by_their_deadline_on_a_server_that_hangs(client: Client) {
    let server = redis();
    let store = client.sessions(&server.url(), &layout(), DEADLINE);
    connected(&store).await;
    let id = store
        .observe(&visit(), KEEP)
        .await
        .expect("an answer")
        .session
        .id;
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

/// Each answer takes a third of the deadline, and there are dozens to wait for: what is told in time is said to be a part.
async fn stats_of_many_keys_end_by_their_deadline(client: Client) {
    let server = redis();
    let fill = "for i = 1, 30000 do redis.call('SET', 'other' .. i, 1, 'PX', 600000) end";
    server.command(&["EVAL", fill, "0"]).expect("EVAL");
    let proxy = FaultProxy::start(server.addr()).await.expect("a proxy");
    let store = client.sessions(&server.url_at(proxy.addr()), &layout(), DEADLINE);
    connected(&store).await;
    let latency = Toxic::Latency {
        delay: DEADLINE / 3,
        jitter: Duration::ZERO,
    };
    proxy.add(Direction::Replies, latency);
    match in_time(store.stats(u32::MAX)).await {
        Ok(report) => assert!(!report.is_complete, "{report:?}"),
        // Nothing was learnt: the machine is crowded.
        Err(error) => assert!(error.is_outage() && !error.may_have_charged(), "{error:?}"),
    }
    let patient = client.sessions(&server.url(), &layout(), PATIENT);
    let report = patient.stats(u32::MAX).await.expect("an answer");
    assert!(report.is_complete && report.memory_bytes > 0, "{report:?}");
}

/// Nodes that keep their addresses to themselves cannot be asked one by one: that is told, not passed over.
async fn stats_of_nodes_that_tell_no_address_are_an_error(client: Client) {
    let cluster = RedisCluster::start(Flavour::Redis).expect("a cluster");
    let store = client.sessions(&cluster.address(), &layout(), PATIENT);
    let report = store.stats(1000).await.expect("an answer");
    assert!(report.is_complete, "{report:?}");
    for node in cluster.nodes() {
        let set = node.config_set("cluster-preferred-endpoint-type", "unknown-endpoint");
        set.expect("set");
    }
    let error = store.stats(1000).await.expect_err("no address");
    assert!(!error.is_outage() && !error.may_have_charged(), "{error:?}");
    assert!(
        error.to_string().contains("tell their addresses"),
        "{error}"
    );
}

/// On the server's own clock: times are the server's, and every key lives as long as it should.
async fn keys_live_as_long_as_the_servers_clock_says(client: Client) {
    let (server, layout) = (redis(), layout());
    let store = client.sessions(&server.url(), &layout, PATIENT);
    let before = server_now_us(&server);
    let session = store
        .observe(&visit(), KEEP)
        .await
        .expect("an answer")
        .session;
    let after = server_now_us(&server);
    assert!((before..=after).contains(&session.first_seen.as_micros()));
    assert_eq!(
        store.get(&session.id).await.expect("an answer"),
        Some(session.clone())
    );
    let signal = store.signal(visit().ip).await.expect("an answer");
    assert_eq!(
        signal.map(|signal| signal.first_seen),
        Some(session.first_seen)
    );
    let used = store
        .consume(&key("form"), &nonce(1), Retention::FIVE_MINUTES)
        .await;
    assert_eq!(used.expect("an answer"), NonceUse::First);
    let (tags, names) = (
        TagKey::new([7; 32]).expect("a secret"),
        SessionNames::new(&layout),
    );
    let [hash, index] = names.session(&TagKey::locator(&session.id));
    let _ = store
        .observe(&visit_of("cd"), KEEP)
        .await
        .expect("an answer");
    let [address, uniques] = names.address(&tags, visit().ip);
    let form: Key = key("form");
    for (name, keep) in [
        (hash, KEEP),
        (index, KEEP),
        (address, KEEP),
        (uniques, KEEP),
        (
            names.nonce(&tags, &form, &nonce(1)),
            Retention::FIVE_MINUTES,
        ),
    ] {
        let left = server.command(&[&b"PTTL"[..], &name]).expect("PTTL").int();
        let left = u64::try_from(left.expect("a number")).expect("a time to live");
        let keep_ms = u64::try_from(keep.get().as_millis()).expect("a small number");
        assert!(
            left <= keep_ms && left + 60_000 > keep_ms,
            "{left} of {keep_ms} ms"
        );
    }
    no_immortal_keys(&server);
}

fn server_now_us(server: &RedisServer) -> u64 {
    let time = server.command(&["TIME"]).expect("TIME");
    let parts: Vec<u64> = time
        .items()
        .iter()
        .filter_map(|part| part.text()?.parse().ok())
        .collect();
    parts[0] * 1_000_000 + parts[1]
}

/// A session that another version wrote is an error that names the version, and nothing is changed.
async fn session_of_another_version_is_told(client: Client) {
    let (server, layout) = (redis(), layout());
    let store = client.sessions(&server.url(), &layout, PATIENT);
    let id = store
        .observe(&visit(), KEEP)
        .await
        .expect("an answer")
        .session
        .id;
    let [name, _] = SessionNames::new(&layout).session(&TagKey::locator(&id));
    let foreign = [&b"HSET"[..], &name, b"id", b"\x09from-the-future"];
    server.command(&foreign).expect("HSET");
    let errors = [
        store.get(&id).await.expect_err("another version"),
        store
            .observe(&visit(), KEEP)
            .await
            .expect_err("another version"),
        store.touch(&id, KEEP).await.expect_err("another version"),
    ];
    for error in errors {
        assert!(!error.is_outage() && !error.may_have_charged(), "{error:?}");
        let cause = std::error::Error::source(&error).expect("a cause");
        assert!(cause.to_string().contains("unknown version 9"), "{cause}");
    }
}

/// A session that something else has damaged is an error that says what to do.
async fn corrupt_session_is_told(client: Client) {
    let (server, layout) = (redis(), layout());
    let store = client.sessions(&server.url(), &layout, PATIENT);
    let id = store
        .observe(&visit(), KEEP)
        .await
        .expect("an answer")
        .session
        .id;
    let [name, _] = SessionNames::new(&layout).session(&TagKey::locator(&id));
    let damage = [&b"HDEL"[..], &name, b"expires"];
    server.command(&damage).expect("HDEL");
    for error in [
        store.get(&id).await.expect_err("corrupt"),
        store.observe(&visit(), KEEP).await.expect_err("corrupt"),
        store.end(&id).await.expect_err("corrupt"),
    ] {
        assert!(!error.is_outage() && !error.may_have_charged(), "{error:?}");
        let advice = error.to_string();
        assert!(advice.contains("nothing but the limiter write"), "{advice}");
    }
}

/// A user who may write but not expire gets an error: no key stays for ever, and nothing that was there is lost or changed.
async fn user_who_may_not_expire_leaves_nothing_for_ever(client: Client) {
    let acl = "limiter on >secret ~* resetchannels +@all -pexpire";
    let server = RedisServer::builder(Flavour::Redis).with_acl_user(acl);
    let server = server.start().expect("Redis starts");
    let layout = layout();
    let store = client.sessions(&server.url_as("limiter", "secret"), &layout, PATIENT);
    refused(&write_all(&store, &visit(), None).await);
    assert_eq!(server.keys().expect("keys"), Vec::<Vec<u8>>::new());

    let admin = client.sessions(&server.url(), &layout, PATIENT);
    let seen = admin.observe(&visit(), KEEP).await.expect("an answer");
    let id = seen.session.id;
    // A second fingerprint of the address, so that each kind of key is there.
    let _ = admin
        .observe(&visit_of("cd"), KEEP)
        .await
        .expect("an answer");
    assert!(write_all(&admin, &visit(), Some(&id)).await.is_empty());
    let before = everything(&server);
    assert_eq!(
        before.len(),
        8,
        "two sessions and lists, an address, its fingerprints, a feed, a cluster"
    );
    let mut told = visit();
    told.bot_probability = Some(BotProbability::from_ppm(9).expect("a probability"));
    told.country = Some("NL".parse().expect("a country"));
    for visit in [visit(), told, visit_of("ef")] {
        let errors = write_all(&store, &visit, Some(&id)).await;
        assert_eq!(errors.len(), 4, "{errors:?}");
        refused(&errors);
        assert_eq!(everything(&server), before);
    }
}

/// A server that lacks memory refuses visits and members, new and known, and nothing is changed.
async fn server_that_lacks_memory_refuses_as_a_whole(client: Client) {
    let server = redis();
    let store = client.sessions(&server.url(), &layout(), PATIENT);
    let seen = store.observe(&visit(), KEEP).await.expect("an answer");
    let (id, odd) = (seen.session.id, Label::new("odd").expect("a label"));
    let joined = store.join(&odd, &visit().fingerprint, KEEP).await;
    joined.expect("it joins");
    let before = everything(&server);
    server.config_set("maxmemory", "1").expect("set");
    let errors = [
        store.observe(&visit(), KEEP).await.err(),
        store.observe(&visit_of("cd"), KEEP).await.err(),
        store.touch(&id, KEEP).await.err(),
        store.join(&odd, &visit().fingerprint, KEEP).await.err(),
        store
            .join(&odd, &visit_of("cd").fingerprint, KEEP)
            .await
            .err(),
    ];
    for error in errors {
        let error = error.expect("no memory");
        assert!(matches!(error, StoreError::Overloaded { .. }), "{error:?}");
        assert!(!error.may_have_charged(), "{error:?}");
    }
    server.config_set("maxmemory", "0").expect("set");
    assert_eq!(everything(&server), before);
}

/// Writes in each way that makes or prolongs a key; returns what failed.
async fn write_all(store: &Sessions, visit: &Visit, id: Option<&SessionId>) -> Vec<StoreError> {
    let odd = Label::new("odd").expect("a label");
    let mut failed = Vec::new();
    failed.extend(store.observe(visit, KEEP).await.err());
    if let Some(id) = id {
        failed.extend(store.touch(id, KEEP).await.err());
    }
    let anomaly = Anomaly::new(Severity::Low, odd.clone());
    failed.extend(store.push(&anomaly).await.err());
    failed.extend(store.join(&odd, &visit.fingerprint, KEEP).await.err());
    failed
}

/// Checks that each of the calls was refused for want of a permission, as a whole.
fn refused(errors: &[StoreError]) {
    assert!(!errors.is_empty());
    for error in errors {
        assert!(!error.is_outage() && !error.may_have_charged(), "{error:?}");
        assert!(error.to_string().contains("ACL line"), "{error}");
    }
}

/// Returns every key of a server with what it holds.
fn everything(server: &RedisServer) -> BTreeMap<Vec<u8>, Reply> {
    let keys = server.keys().expect("keys");
    let dump = |key: &Vec<u8>| {
        let dump = server.command(&[&b"DUMP"[..], key]);
        dump.expect("DUMP")
    };
    keys.iter().map(|key| (key.clone(), dump(key))).collect()
}

/// What the README grants is enough, and each word is needed. Whichever is lacking: the error says so, no key stays for ever, and
/// a call that says it changed nothing did not count.
async fn user_with_the_published_permissions(client: Client) {
    let words = [
        "+evalsha",
        "+eval",
        "+hgetall",
        "+hmget",
        "+hset",
        "+set",
        "+del",
        "+pexpire",
        "+time",
        "+ping",
        "+zadd",
        "+zrem",
        "+zcard",
        "+zrange",
        "+zrevrangebyscore",
        "+zremrangebyscore",
        "+zremrangebyrank",
        "+pfadd",
        "+pfcount",
        "+xadd",
        "+xrevrange",
        "+info",
        "+scan",
    ];
    let acl = "limiter on >secret ~* resetchannels -@all";
    let server = RedisServer::builder(Flavour::Redis).with_acl_user(acl);
    let server = server.start().expect("Redis starts");
    // PING only tells a crowded or stopped server from a good one.
    let lacking = words.iter().filter(|word| **word != "+ping").map(Some);
    for lacking in std::iter::once(None).chain(lacking) {
        let mut set = vec!["ACL", "SETUSER", "limiter", "-@all"];
        set.extend(words.iter().filter(|word| Some(*word) != lacking));
        server.command(&set).expect("set");
        server.script_flush().expect("flushed");
        server.flush_all().expect("empty");
        let layout = layout();
        let store = client.sessions(&server.url_as("limiter", "secret"), &layout, PATIENT);
        let admin = client.sessions(&server.url(), &layout, PATIENT);
        let known = crowded_session(&server, &admin, &layout).await;
        let mut failed = Vec::new();
        for face in ["ab", "cd"] {
            failed.extend(counted_as_told(&store, &admin, &known, face).await);
        }
        failed.extend(write_all(&store, &visit(), Some(&known)).await);
        failed.extend(read_all(&store, &visit(), &known).await);
        failed.extend(store.end(&known).await.err());
        assert_eq!(
            failed.is_empty(),
            lacking.is_none(),
            "without {lacking:?}: {failed:?}"
        );
        no_immortal_keys(&server);
        for error in &failed {
            assert!(
                matches!(error, StoreError::Misconfigured { .. }),
                "without {lacking:?}: {error:?}"
            );
        }
    }
}

/// Begins a session of a fingerprint that has as many as are kept, so that the next one pushes one out.
async fn crowded_session(server: &RedisServer, admin: &Sessions, layout: &KeyLayout) -> SessionId {
    let seen = admin.observe(&visit(), KEEP).await.expect("an answer");
    let id = seen.session.id;
    let [_, index] = SessionNames::new(layout).session(&TagKey::locator(&id));
    let mut crowd = vec![b"ZADD".to_vec(), index];
    for nth in 0..BY_FINGERPRINT_MAX {
        crowd.extend([
            b"9000000000000000".to_vec(),
            format!("{nth:020}").into_bytes(),
        ]);
    }
    server.command(&crowd).expect("ZADD");
    id
}

/// Observes a visit, and checks that one that says it did not count did not.
async fn counted_as_told(
    store: &Sessions,
    admin: &Sessions,
    known: &SessionId,
    face: &str,
) -> Option<StoreError> {
    let visit = visit_of(face);
    let before = admin.get(known).await.expect("an answer");
    let sessions = admin.by_fingerprint(&visit.fingerprint).await;
    let error = store.observe(&visit, KEEP).await.err()?;
    if !error.may_have_charged() {
        assert_eq!(
            admin.get(known).await.expect("an answer"),
            before,
            "{error:?}"
        );
        let after = admin.by_fingerprint(&visit.fingerprint).await;
        assert_eq!(
            after.expect("an answer"),
            sessions.expect("an answer"),
            "{error:?}"
        );
    }
    Some(error)
}

/// Reads in each way; returns what failed.
async fn read_all(store: &Sessions, visit: &Visit, id: &SessionId) -> Vec<StoreError> {
    let odd = Label::new("odd").expect("a label");
    let mut failed = Vec::new();
    failed.extend(store.get(id).await.err());
    failed.extend(store.by_fingerprint(&visit.fingerprint).await.err());
    failed.extend(store.signal(visit.ip).await.err());
    failed.extend(store.recent(Severity::Low, Timestamp::EPOCH, 9).await.err());
    failed.extend(store.members(&odd).await.err());
    failed.extend(store.stats(10).await.err());
    failed.extend(store.consume(&key("form"), &nonce(1), KEEP).await.err());
    failed
}

/// A key of another type in the place of the list, the address or its fingerprints: what the error says of the count is true.
async fn visit_beside_a_key_of_another_type_is_told_truly(client: Client) {
    let (server, layout) = (redis(), layout());
    let store = client.sessions(&server.url(), &layout, PATIENT);
    let id = store
        .observe(&visit(), KEEP)
        .await
        .expect("an answer")
        .session
        .id;
    let names = SessionNames::new(&layout);
    let [_, index] = names.session(&TagKey::locator(&id));
    let tags = TagKey::new([7; 32]).expect("a secret");
    let [address, uniques] = names.address(&tags, visit().ip);
    for (name, counts) in [(index, false), (address, false), (uniques, true)] {
        let held = server.command(&[&b"DUMP"[..], &name]).expect("DUMP");
        server
            .command(&[&b"SET"[..], &name, b"theirs", b"PX", b"60000"])
            .expect("SET");
        let before = store.get(&id).await.expect("an answer");
        // Another fingerprint, so that the address counts it; and the known one.
        let visits = if counts {
            [visit_of("cd"), visit_of("cd")]
        } else {
            [visit(), visit()]
        };
        for visit in visits {
            let error = store.observe(&visit, KEEP).await.expect_err("another type");
            assert!(!error.is_outage(), "{error:?}");
            assert_eq!(error.may_have_charged(), counts, "{error:?}");
            assert!(error.to_string().contains("prefix"), "{error}");
        }
        if !counts {
            assert_eq!(store.get(&id).await.expect("an answer"), before);
        }
        server.command(&[&b"DEL"[..], &name]).expect("DEL");
        if let Reply::Bulk(held) = &held {
            server
                .command(&[&b"RESTORE"[..], &name, b"60000", held])
                .expect("RESTORE");
        }
    }
    no_immortal_keys(&server);
}

/// A server that lost its scripts gets them again, in the same call.
async fn scripts_that_the_server_forgot_are_loaded_again(client: Client) {
    let server = redis();
    let store = client.sessions(&server.url(), &layout(), PATIENT);
    for count in 1..=5 {
        server.script_flush().expect("SCRIPT FLUSH");
        let seen = store.observe(&visit(), KEEP).await.expect("an answer");
        assert_eq!(seen.session.request_count, count);
    }
}

/// A session is asked for while its slot moves, key by key: who waits for it is answered, and nothing is counted twice. fred
/// cannot be sent after a slot, and fails in time instead.
async fn session_in_a_moving_slot_is_counted_exactly(client: Client) {
    let cluster = Arc::new(RedisCluster::start(Flavour::Redis).expect("a cluster"));
    let layout = layout();
    let deadline = match client {
        Client::Redis => PATIENT,
        Client::Fred => DEADLINE,
    };
    let store = client.sessions(&cluster.address(), &layout, deadline);
    connected(&store).await;
    let patient = client.sessions(&cluster.address(), &layout, PATIENT);
    let id = patient
        .observe(&visit(), KEEP)
        .await
        .expect("an answer")
        .session
        .id;
    let [name, _] = SessionNames::new(&layout).session(&TagKey::locator(&id));
    let slot = cluster.slot_of(&name).expect("a slot");
    let stop = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn({
        let stop = stop.clone();
        async move {
            let (mut counted, mut unsure, mut refused) = (1_u64, 0_u64, 0_u64);
            while !stop.load(Ordering::SeqCst) {
                match store.observe(&visit(), KEEP).await {
                    Ok(seen) => {
                        assert_eq!(seen.session.id, id, "another session");
                        counted += 1;
                    }
                    Err(error) if error.may_have_charged() => unsure += 1,
                    Err(_) => refused += 1,
                }
            }
            (counted, unsure, refused)
        }
    });
    let moving = cluster.clone();
    let moved = tokio::task::spawn_blocking(move || {
        let from = moving.primary_of(slot).expect("a primary").port();
        let to = moving.nodes().find(|node| node.port() != from);
        let migration = moving
            .begin_migration(slot, to.expect("another"))
            .expect("begins");
        std::thread::sleep(Duration::from_millis(50));
        while migration.move_keys(1).expect("moves") > 0 {
            std::thread::sleep(Duration::from_millis(30));
        }
        std::thread::sleep(Duration::from_millis(50));
        migration.finish().expect("finishes");
        std::thread::sleep(Duration::from_millis(50));
    });
    moved.await.expect("the slot moves");
    stop.store(true, Ordering::SeqCst);
    let (counted, unsure, refused) = load.await.expect("no caller panics");
    if client == Client::Redis {
        assert_eq!((unsure, refused), (0, 0), "of {counted}");
    }
    let fresh = client.sessions(&cluster.address(), &layout, PATIENT);
    let session = fresh.get(&id).await.expect("an answer").expect("it lives");
    let most = counted + unsure;
    assert!(
        (counted..=most).contains(&session.request_count),
        "{} not in {counted}..={most}",
        session.request_count
    );
    assert_eq!(
        fresh
            .by_fingerprint(&visit().fingerprint)
            .await
            .expect("an answer"),
        [id]
    );
}

/// A session that begins while its slot moves waits for the end of the move; if that takes too long, it has not begun.
async fn new_session_in_a_moving_slot_fails_in_time_and_does_not_count(client: Client) {
    let cluster = RedisCluster::start(Flavour::Redis).expect("a cluster");
    let layout = layout();
    let store = client.sessions(&cluster.address(), &layout, DEADLINE);
    connected(&store).await;
    let patient = client.sessions(&cluster.address(), &layout, PATIENT);
    let known = patient
        .observe(&visit(), KEEP)
        .await
        .expect("an answer")
        .session;
    let [name, _] = SessionNames::new(&layout).session(&TagKey::locator(&known.id));
    let slot = cluster.slot_of(&name).expect("a slot");
    let mut elsewhere = visit();
    elsewhere.ip = "198.51.100.7".parse().expect("an address");
    let from = cluster.primary_of(slot).expect("a primary").port();
    let to = cluster.nodes().find(|node| node.port() != from);
    let migration = cluster
        .begin_migration(slot, to.expect("another"))
        .expect("begins");
    let observed = in_time(store.observe(&elsewhere, KEEP)).await;
    let error = observed.expect_err("the slot moves");
    assert!(error.is_outage(), "{error:?}");
    migration.finish().expect("finishes");
    let fresh = client.sessions(&cluster.address(), &layout, PATIENT);
    let seen = fresh.observe(&elsewhere, KEEP).await.expect("an answer");
    assert!(seen.is_new && seen.in_signals);
    assert!(fresh.get(&known.id).await.expect("an answer").is_some());
}
