//! Servers that fail, one way in each test: every call ends in time, says whether it may have charged, never charges twice,
//! and the store comes back by itself.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "this is a test"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use limiter_core::{Cost, StoreError};
use limiter_store_tests::{
    Client, DEADLINE, PATIENT, bucket, key, layout, no_immortal_keys, on_clients_and_servers, plan,
    recovers, spend_in_time, spent,
};
use limiter_testkit::proxy::{Direction, Ending, FaultProxy, ReplyFault, ReplyRule, Toxic};
use limiter_testkit::server::{Flavour, RedisServer};
use tokio::time::sleep;

const RECOVERY: Duration = Duration::from_secs(3);

fn start(flavour: Flavour) -> RedisServer {
    RedisServer::start(flavour).expect("the server starts")
}

async fn proxied(server: &RedisServer) -> FaultProxy {
    FaultProxy::start(server.addr()).await.expect("a proxy")
}

on_clients_and_servers! {
    server_absent_at_start
    swallowed_reply_is_charged_once_and_said
    killed_and_restarted_empty_under_load
    stopped_for_seconds
    blackholed_connection_is_replaced
    reset_in_the_middle_of_a_reply
    reply_after_the_deadline
    one_byte_at_a_time
    garbage_reply
    cancelled_callers_get_nobody_elses_reply
    script_flush_every_millisecond
    out_of_memory
    demoted_to_replica
    loading_server_is_waited_for
    try_again_is_tried_again
    wrong_password
    user_without_permission
    user_with_the_published_permissions
    user_that_may_not_expire_writes_nothing
    user_of_another_database
    foreign_and_corrupt_values
    too_many_clients
}

async fn server_absent_at_start(client: Client, flavour: Flavour) {
    let server = start(flavour);
    let proxy = proxied(&server).await;
    proxy.refuse_connections().await;
    let store = client.store(&server.url_at(proxy.addr()), &layout(), DEADLINE);
    let gold = bucket(10);
    for _ in 0..20 {
        let error = spend_in_time(&store, &key("ann"), &gold)
            .await
            .expect_err("no server");
        assert!(error.is_outage() && !error.may_have_charged(), "{error:?}");
    }
    proxy.accept_connections().await.expect("listens again");
    recovers(&store, &gold, RECOVERY).await;
    assert_eq!(spent(&store, &key("ann"), &gold).await, 0);
}

async fn swallowed_reply_is_charged_once_and_said(client: Client, flavour: Flavour) {
    for ending in [Ending::Hang, Ending::Close, Ending::Reset] {
        let server = start(flavour);
        let proxy = proxied(&server).await;
        let (layout, gold) = (layout(), bucket(10));
        let store = client.store(&server.url_at(proxy.addr()), &layout, DEADLINE);
        recovers(&store, &gold, RECOVERY).await;
        proxy.add_rule(ReplyRule::next(1, ReplyFault::Lost(ending)).to_command("EVALSHA"));
        let error = spend_in_time(&store, &key("ann"), &gold)
            .await
            .expect_err("the reply is lost");
        assert!(
            error.is_outage() && error.may_have_charged(),
            "{ending:?}: {error:?}"
        );
        sleep(Duration::from_millis(300)).await;
        let direct = client.store(&server.url(), &layout, PATIENT);
        assert_eq!(spent(&direct, &key("ann"), &gold).await, 1, "{ending:?}");
        proxy.heal();
        recovers(&store, &gold, RECOVERY).await;
    }
}

async fn killed_and_restarted_empty_under_load(client: Client, flavour: Flavour) {
    let server = Arc::new(start(flavour));
    let (layout, gold) = (layout(), bucket(1000));
    let store = client.store(&server.url(), &layout, DEADLINE);
    recovers(&store, &gold, RECOVERY).await;
    let (stop, admitted) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU32::new(0)),
    );
    let load: Vec<_> = (0..16)
        .map(|_| {
            let (store, gold, stop, admitted) =
                (store.clone(), gold.clone(), stop.clone(), admitted.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(said) = spend_in_time(&store, &key("ann"), &gold).await {
                        admitted.fetch_add(u32::from(said.admitted), Ordering::Relaxed);
                    }
                    sleep(Duration::from_micros(200)).await;
                }
            })
        })
        .collect();
    let losses = 3;
    for _ in 0..losses {
        sleep(Duration::from_millis(200)).await;
        let server = server.clone();
        tokio::task::spawn_blocking(move || {
            server.kill();
            server.restart().expect("starts again");
        })
        .await
        .expect("no panic");
        recovers(&store, &gold, RECOVERY).await;
    }
    sleep(Duration::from_millis(200)).await;
    stop.store(true, Ordering::Relaxed);
    for task in load {
        task.await.expect("every call in time");
    }
    let admitted = admitted.load(Ordering::Relaxed);
    assert!(admitted <= 1000 * (1 + losses), "{admitted} admitted");
    no_immortal_keys(&server);
}

async fn stopped_for_seconds(client: Client, flavour: Flavour) {
    let server = start(flavour);
    let gold = bucket(1000);
    let store = client.store(&server.url(), &layout(), DEADLINE);
    recovers(&store, &gold, RECOVERY).await;
    server.pause().expect("stops");
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        let error = spend_in_time(&store, &key("ann"), &gold)
            .await
            .expect_err("a stopped server");
        assert!(error.is_outage(), "{error:?}");
        sleep(Duration::from_millis(5)).await;
    }
    server.resume().expect("goes on");
    recovers(&store, &gold, RECOVERY).await;
    no_immortal_keys(&server);
}

async fn blackholed_connection_is_replaced(client: Client, flavour: Flavour) {
    let server = start(flavour);
    let proxy = proxied(&server).await;
    let gold = bucket(1000);
    let store = client.store(&server.url_at(proxy.addr()), &layout(), DEADLINE);
    recovers(&store, &gold, RECOVERY).await;
    proxy.add(Direction::Both, Toxic::Blackhole);
    for _ in 0..5 {
        let error = spend_in_time(&store, &key("ann"), &gold)
            .await
            .expect_err("a black hole");
        assert!(error.is_outage(), "{error:?}");
    }
    // New connections are well; those from before stay dead for ever.
    proxy.heal();
    recovers(&store, &gold, RECOVERY).await;
}

async fn reset_in_the_middle_of_a_reply(client: Client, flavour: Flavour) {
    let server = start(flavour);
    let proxy = proxied(&server).await;
    let (layout, gold) = (layout(), bucket(1000));
    let store = client.store(&server.url_at(proxy.addr()), &layout, DEADLINE);
    recovers(&store, &gold, RECOVERY).await;
    for bytes in [1, 5, 12] {
        proxy.add_rule(ReplyRule::next(1, ReplyFault::CutAfter { bytes }).to_command("EVALSHA"));
        let error = spend_in_time(&store, &key("ann"), &gold)
            .await
            .expect_err("half a reply");
        assert!(error.is_outage() && error.may_have_charged(), "{error:?}");
        recovers(&store, &gold, RECOVERY).await;
    }
    assert_eq!(spent(&store, &key("ann"), &gold).await, 3);
}

async fn reply_after_the_deadline(client: Client, flavour: Flavour) {
    let server = start(flavour);
    let proxy = proxied(&server).await;
    let (layout, gold) = (layout(), bucket(1000));
    let store = client.store(&server.url_at(proxy.addr()), &layout, DEADLINE);
    recovers(&store, &gold, RECOVERY).await;
    let late = ReplyFault::Late(Duration::from_millis(120));
    proxy.add_rule(ReplyRule::next(1, late).to_command("EVALSHA"));
    let error = spend_in_time(&store, &key("ann"), &gold)
        .await
        .expect_err("a late reply");
    assert!(error.is_outage() && error.may_have_charged(), "{error:?}");
    recovers(&store, &gold, RECOVERY).await;
    // The late reply went to nobody: the next caller gets its own.
    let said = spend_in_time(&store, &key("bob"), &bucket(5))
        .await
        .expect("an answer");
    assert_eq!(said.plans[0].remaining, 4);
    assert_eq!(spent(&store, &key("ann"), &gold).await, 1);
}

async fn one_byte_at_a_time(client: Client, flavour: Flavour) {
    let server = start(flavour);
    let proxy = proxied(&server).await;
    let gold = bucket(100);
    let store = client.store(&server.url_at(proxy.addr()), &layout(), PATIENT);
    recovers(&store, &gold, RECOVERY).await;
    proxy.add(Direction::Both, Toxic::ONE_BYTE_SLICES);
    for remaining in (80..100).rev() {
        let said = store
            .try_acquire(&key("ann"), std::slice::from_ref(&gold), Cost::ONE)
            .await
            .expect("an answer");
        assert_eq!(said.plans[0].remaining, remaining);
    }
}

async fn garbage_reply(client: Client, flavour: Flavour) {
    let server = start(flavour);
    let proxy = proxied(&server).await;
    let gold = bucket(100);
    let store = client.store(&server.url_at(proxy.addr()), &layout(), DEADLINE);
    recovers(&store, &gold, RECOVERY).await;
    for garbage in [
        "+OK\r\n",
        "$5\r\nhello\r\n",
        ":7\r\n",
        "*-1\r\n",
        "$-1\r\n",
        "?!\r\n",
    ] {
        let rule = ReplyRule::next(1, ReplyFault::Garbage(garbage.into()));
        proxy.add_rule(rule.to_command("EVALSHA"));
        let error = spend_in_time(&store, &key("ann"), &gold)
            .await
            .expect_err(garbage);
        assert!(
            error.is_outage() && error.may_have_charged(),
            "{garbage:?}: {error:?}"
        );
        recovers(&store, &gold, RECOVERY).await;
    }
}

/// Callers are dropped at random moments; each of those that stay has a bucket of its own size, and so sees at once if the
/// reply was another's.
async fn cancelled_callers_get_nobody_elses_reply(client: Client, flavour: Flavour) {
    let server = start(flavour);
    let store = client.store(&server.url(), &layout(), PATIENT);
    recovers(&store, &bucket(10), RECOVERY).await;
    let callers: Vec<_> = (0..64_u32)
        .map(|nth| {
            let store = store.clone();
            tokio::spawn(async move {
                let (own, mut kept) = (key(&format!("caller {nth}")), 0);
                let gold = bucket(1_000_000 + nth * 1_000);
                for _ in 0..100 {
                    let plans = [gold.clone()];
                    let call = store.try_acquire(&own, &plans, Cost::ONE);
                    let patience = Duration::from_micros(fastrand::u64(0..2000));
                    if let Ok(said) = tokio::time::timeout(patience, call).await {
                        let remaining = said.expect("an answer").plans[0].remaining;
                        assert!((999_900..1_000_000).contains(&(remaining - nth * 1_000)));
                        kept += 1;
                    }
                }
                let spent = spent(&store, &own, &gold).await;
                assert!((kept..=100).contains(&spent), "{kept} kept, {spent} spent");
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("no wrong reply");
    }
    no_immortal_keys(&server);
}

async fn script_flush_every_millisecond(client: Client, flavour: Flavour) {
    let server = Arc::new(start(flavour));
    let store = client.store(&server.url(), &layout(), PATIENT);
    let stop = Arc::new(AtomicBool::new(false));
    let flusher = {
        let (server, stop) = (server.clone(), stop.clone());
        tokio::task::spawn_blocking(move || {
            while !stop.load(Ordering::Relaxed) {
                server.script_flush().expect("flushes");
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    };
    let gold = bucket(100_000);
    let plans = [gold.clone(), plan("window", "sliding 1000000/h")];
    for nth in 1..=500 {
        let said = store
            .try_acquire(&key("ann"), &plans, Cost::ONE)
            .await
            .expect("an answer");
        assert_eq!(said.plans[0].remaining, 100_000 - nth);
    }
    stop.store(true, Ordering::Relaxed);
    flusher.await.expect("no panic");
}

async fn out_of_memory(client: Client, flavour: Flavour) {
    let server = start(flavour);
    let (gold, store) = (
        bucket(1000),
        client.store(&server.url(), &layout(), DEADLINE),
    );
    recovers(&store, &gold, RECOVERY).await;
    server
        .config_set("maxmemory-policy", "noeviction")
        .expect("set");
    server.config_set("maxmemory", "1").expect("set");
    let error = spend_in_time(&store, &key("ann"), &gold)
        .await
        .expect_err("no memory");
    assert!(matches!(error, StoreError::Overloaded { .. }), "{error:?}");
    assert!(!error.may_have_charged());
    server.config_set("maxmemory", "0").expect("set");
    recovers(&store, &gold, RECOVERY).await;
    assert_eq!(spent(&store, &key("ann"), &gold).await, 0);
    no_immortal_keys(&server);
}

async fn demoted_to_replica(client: Client, flavour: Flavour) {
    let server = start(flavour);
    let (gold, store) = (
        bucket(1000),
        client.store(&server.url(), &layout(), DEADLINE),
    );
    recovers(&store, &gold, RECOVERY).await;
    server.demote().expect("demoted");
    let mut sure = false;
    for _ in 0..5 {
        let error = spend_in_time(&store, &key("ann"), &gold)
            .await
            .expect_err("read-only");
        assert!(error.is_outage(), "{error:?}");
        // It is tried again until the deadline: a reply that is still under way then leaves it open what it says.
        sure |= !error.may_have_charged();
    }
    assert!(sure, "no call heard what the server said");
    server.promote().expect("promoted");
    recovers(&store, &gold, RECOVERY).await;
    assert_eq!(spent(&store, &key("ann"), &gold).await, 0);
}

/// Loads its own data anew, slowly: for a second or so the server says LOADING to everyone, really.
async fn loading_server_is_waited_for(client: Client, flavour: Flavour) {
    let server = Arc::new(start(flavour));
    let (layout, gold) = (layout(), bucket(1000));
    let hasty = client.store(&server.url(), &layout, DEADLINE);
    let patient = client.store(&server.url(), &layout, PATIENT);
    recovers(&hasty, &gold, RECOVERY).await;
    let plans = [gold.clone()];
    let said = patient.try_acquire(&key("ann"), &plans, Cost::ONE).await;
    assert!(said.expect("an answer").admitted);
    server
        .command(&["DEBUG", "POPULATE", "2000"])
        .expect("filled");
    server
        .config_set("loading-process-events-interval-bytes", "1024")
        .expect("set");
    server.config_set("key-load-delay", "500").expect("set");
    let reloading = server.clone();
    let reload = tokio::task::spawn_blocking(move || reloading.command(&["DEBUG", "RELOAD"]));
    let began = std::time::Instant::now();
    let error = loop {
        match spend_in_time(&hasty, &key("bob"), &gold).await {
            Ok(_) => assert!(began.elapsed() < RECOVERY, "the server never said LOADING"),
            Err(error) => break error,
        }
    };
    assert!(error.is_outage(), "{error:?}");
    // This one waits for the server, and is charged once.
    let said = patient.try_acquire(&key("ann"), &plans, Cost::ONE).await;
    assert_eq!(said.expect("an answer").plans[0].remaining, 998);
    reload.await.expect("no panic").expect("reloaded");
    recovers(&hasty, &gold, RECOVERY).await;
}

/// A script on one key gets no TRYAGAIN of a real server, which is why there is one key. Through the proxy, word by word as
/// Redis writes it; the call is one that changes nothing, for behind the proxy it did run.
async fn try_again_is_tried_again(client: Client, flavour: Flavour) {
    let server = start(flavour);
    let proxy = proxied(&server).await;
    let gold = bucket(10);
    let store = client.store(&server.url_at(proxy.addr()), &layout(), PATIENT);
    recovers(&store, &gold, RECOVERY).await;
    assert_eq!(spent(&store, &key("ann"), &gold).await, 0);
    let before = proxy.requests_of("EVALSHA");
    let words = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
    proxy.add_rule(ReplyRule::next(3, ReplyFault::Garbage(words.into())).to_command("EVALSHA"));
    assert_eq!(spent(&store, &key("ann"), &gold).await, 0);
    assert_eq!(proxy.requests_of("EVALSHA") - before, 4);
}

/// `+select` is what a database other than 0 needs besides.
async fn user_of_another_database(client: Client, flavour: Flavour) {
    let rules =
        "-@all +evalsha +eval +hget +hmget +hset +hdel +get +set +del +pttl +pexpire +time +ping";
    let server = RedisServer::builder(flavour)
        .with_acl_user(format!(
            "limiter on >secret ~* resetchannels {rules} +select"
        ))
        .with_acl_user(format!("poor on >secret ~* resetchannels {rules}"))
        .start()
        .expect("starts");
    let (layout, gold) = (layout(), bucket(10));
    let address = |user: &str| format!("{}/3", server.url_as(user, "secret").trim_end_matches('/'));
    let store = client.store(&address("limiter"), &layout, PATIENT);
    let said = store
        .try_acquire(&key("ann"), std::slice::from_ref(&gold), Cost::ONE)
        .await;
    assert!(said.expect("an answer").admitted);
    assert!(server.keys().expect("keys").is_empty(), "not in database 0");
    let store = client.store(&address("poor"), &layout, PATIENT);
    let error = store.try_acquire(&key("ann"), &[gold], Cost::ONE).await;
    let error = error.expect_err("no permission to select");
    let misconfigured = matches!(error, StoreError::Misconfigured { .. });
    assert!(misconfigured && !error.may_have_charged(), "{error:?}");
}

async fn wrong_password(client: Client, flavour: Flavour) {
    let server = RedisServer::builder(flavour)
        .with_password("right")
        .start()
        .expect("starts");
    let store = client.store(&server.url_as("default", "wrong"), &layout(), DEADLINE);
    let gold = bucket(10);
    sleep(Duration::from_millis(50)).await;
    let mut last = None;
    for _ in 0..20 {
        last = Some(
            spend_in_time(&store, &key("ann"), &gold)
                .await
                .expect_err("wrong password"),
        );
        sleep(Duration::from_millis(10)).await;
    }
    let error = last.expect("an error");
    assert!(
        matches!(error, StoreError::Misconfigured { .. }),
        "{error:?}"
    );
    let right = client.store(&server.url_as("default", "right"), &layout(), DEADLINE);
    recovers(&right, &gold, RECOVERY).await;
}

async fn user_without_permission(client: Client, flavour: Flavour) {
    let server = RedisServer::builder(flavour)
        .with_acl_user("poor on >secret ~* +@connection +ping +hello +client")
        .start()
        .expect("starts");
    let store = client.store(&server.url_as("poor", "secret"), &layout(), DEADLINE);
    let error = spend_in_time(&store, &key("ann"), &bucket(10))
        .await
        .expect_err("no permission");
    assert!(
        matches!(error, StoreError::Misconfigured { .. }),
        "{error:?}"
    );
    assert!(!error.is_outage() && !error.may_have_charged());
}

/// The ACL line of the README, word by word: all calls work, and each word is needed.
async fn user_with_the_published_permissions(client: Client, flavour: Flavour) {
    let words = [
        "+evalsha", "+eval", "+hget", "+hmget", "+hset", "+hdel", "+pttl", "+pexpire", "+time",
        "+ping",
    ];
    let server = RedisServer::builder(flavour)
        .with_acl_user("limiter on >secret ~* resetchannels -@all")
        .start()
        .expect("starts");
    // PING only tells a crowded or stopped server from a good one.
    let lacking = words.iter().filter(|word| **word != "+ping").map(Some);
    for lacking in std::iter::once(None).chain(lacking) {
        let mut set = vec!["ACL", "SETUSER", "limiter", "-@all"];
        set.extend(words.iter().filter(|word| Some(*word) != lacking));
        server.command(&set).expect("set");
        server.script_flush().expect("flushed");
        server.flush_all().expect("empty");
        let store = client.store(&server.url_as("limiter", "secret"), &layout(), PATIENT);
        let (one, chain) = ([bucket(10)], [bucket(10), plan("daily", "sliding 10/d")]);
        let mut failed = Vec::new();
        for plans in [&one[..], &chain[..], &one[..]] {
            failed.extend(store.try_acquire(&key("ann"), plans, Cost::ONE).await.err());
            failed.extend(store.refund(&key("ann"), plans, Cost::ONE).await.err());
            failed.extend(store.reset(&key("ann"), plans).await.err());
        }
        assert_eq!(
            failed.is_empty(),
            lacking.is_none(),
            "without {lacking:?}: {failed:?}"
        );
        no_immortal_keys(&server);
        assert!(
            failed
                .iter()
                .all(|error| matches!(error, StoreError::Misconfigured { .. })),
            "{failed:?}"
        );
    }
}

/// A call is refused as a whole: also that of a user that may write but not expire, on keys new and old.
async fn user_that_may_not_expire_writes_nothing(client: Client, flavour: Flavour) {
    let server = RedisServer::builder(flavour)
        .with_acl_user(
            "limiter on >secret ~* -@all +evalsha +eval +hget +hmget +hset +hdel +pttl +time +ping",
        )
        .start()
        .expect("starts");
    let layout = layout();
    let store = client.store(&server.url_as("limiter", "secret"), &layout, PATIENT);
    let admin = client.store(&server.url(), &layout, PATIENT);
    let (short, long) = (plan("gold", "10/s"), plan("gold", "1/h burst 10"));
    let chain = [long.clone(), plan("daily", "sliding 10/d")];
    for name in ["new", "old"] {
        let user = key(name);
        if name == "old" {
            // The TTL of this one does not cover what is refused below.
            let said = admin.try_acquire(&user, std::slice::from_ref(&short), Cost::ONE);
            assert!(said.await.expect("an answer").admitted);
        }
        let state = || {
            server
                .command(&[&b"HGETALL"[..], &layout.name(&user)])
                .expect("get")
        };
        let before = state();
        for plans in [std::slice::from_ref(&long), &chain[..]] {
            let error = store.try_acquire(&user, plans, Cost::ONE).await;
            let error = error.expect_err("no permission");
            assert!(
                matches!(error, StoreError::Misconfigured { .. }),
                "{error:?}"
            );
            assert!(!error.may_have_charged());
            assert_eq!(state(), before, "{name} key, {} plans", plans.len());
        }
    }
    no_immortal_keys(&server);
}

async fn foreign_and_corrupt_values(client: Client, flavour: Flavour) {
    let server = start(flavour);
    let layout = layout();
    let store = client.store(&server.url(), &layout, DEADLINE);
    recovers(&store, &bucket(10), RECOVERY).await;
    let name = layout.name(&key("ann"));
    let limits = [
        "1/d burst 10",
        "7/3d burst 10",
        "sliding 10/h",
        "suppressing 10/h",
        "fixed 10/h",
    ];
    for limit in limits {
        let gold = plan("gold", limit);
        for (state, words) in [
            (&b"\x91whatever"[..], "version 9"),
            (b"\x21\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "version 2"),
            (b"\x11short", "corrupt"),
            (b"", "corrupt"),
            (b"\x12", "corrupt"),
        ] {
            server
                .command(&[&b"HSET"[..], &name, b"gold", state])
                .expect("set");
            let error = spend_in_time(&store, &key("ann"), &gold)
                .await
                .expect_err("not understood");
            let StoreError::Misconfigured { cause, .. } = &error else {
                panic!("{error:?}")
            };
            assert!(cause.to_string().contains(words), "{cause} lacks {words}");
            // Nothing was written, and a reset heals it.
            let kept = server
                .command(&[&b"HGET"[..], &name, b"gold"])
                .expect("get");
            assert_eq!(kept, limiter_testkit::server::Reply::Bulk(state.to_vec()));
            store
                .reset(&key("ann"), std::slice::from_ref(&gold))
                .await
                .expect("forgotten");
            assert!(
                spend_in_time(&store, &key("ann"), &gold)
                    .await
                    .expect("well again")
                    .admitted
            );
        }
    }
    server
        .command(&[&b"SET"[..], &name, b"a string"])
        .expect("set");
    let error = spend_in_time(&store, &key("ann"), &bucket(10))
        .await
        .expect_err("wrong type");
    assert!(
        matches!(error, StoreError::Misconfigured { .. }),
        "{error:?}"
    );
    assert!(!error.may_have_charged());
}

async fn too_many_clients(client: Client, flavour: Flavour) {
    let server = RedisServer::builder(flavour)
        .with_max_clients(3)
        .start()
        .expect("starts");
    let gold = bucket(10);
    // The test's own connection counts as well; two others fill the house.
    let mut guests: Vec<_> = (0..4)
        .map(|_| std::net::TcpStream::connect(server.addr()))
        .collect();
    sleep(Duration::from_millis(100)).await;
    let store = client.store(&server.url(), &layout(), DEADLINE);
    for _ in 0..10 {
        let error = spend_in_time(&store, &key("ann"), &gold)
            .await
            .expect_err("no room");
        assert!(error.is_outage() && !error.may_have_charged(), "{error:?}");
        sleep(Duration::from_millis(5)).await;
    }
    guests.clear();
    recovers(&store, &gold, RECOVERY).await;
}
