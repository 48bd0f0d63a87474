//! Users that the server does not know, or does not let do enough.

use std::time::{Duration, Instant};

use limiter_core::{AbusePolicy, Cost, Refund, Source, StoreError, Tier, Timestamp};
use limiter_store_tests::{
    BEHIND_SENTINELS, Client, DEADLINE, IN_A_CLUSTER, OTHER_DATABASE, PATIENT, Stage, bucket,
    ends_by, faults_on_clients_and_servers, key, layout, plan, recovers, spend,
};
use limiter_testkit::rig::{PERMISSIONS, SESSION_PERMISSIONS, acl_user};
use limiter_testkit::server::RedisServer;
use tokio::time::sleep;

use crate::RECOVERY;

faults_on_clients_and_servers! {
    wrong_password
    user_without_permission
    user_with_the_published_permissions
    user_that_may_not_expire_writes_nothing
    user_of_another_database
}

/// Grants a user so much and no more.
fn grant<'a>(server: &RedisServer, user: &'a str, words: impl IntoIterator<Item = &'a str>) {
    let mut set = vec!["ACL", "SETUSER", user];
    set.extend(words);
    server.command(&set).expect("set");
}

/// A store with the wrong password works by itself once the server knows it.
async fn wrong_password(stage: &Stage) {
    let server = stage.start(stage.builder().with_password("right"));
    let address = server.url_as("default", "wrong");
    let store = stage.client.store(&address, &layout(), DEADLINE);
    let gold = bucket(10);
    // A server that does not come to its turn in time says nothing.
    let (began, mut told) = (Instant::now(), 0);
    while told < 10 {
        let refused = spend(&store, &key("ann"), &gold).await;
        let error = refused.expect_err("wrong password");
        assert!(!error.may_have_charged(), "{error:?}");
        told += u8::from(matches!(error, StoreError::Misconfigured { .. }));
        assert!(began.elapsed() < RECOVERY, "told {told} times: {error:?}");
        sleep(Duration::from_millis(10)).await;
    }
    server.config_set("requirepass", "wrong").expect("set");
    recovers(&store, &gold, RECOVERY).await;
}

/// A store whose user may too little works by itself once the user may enough.
async fn user_without_permission(stage: &Stage) {
    let poor = "poor on >secret ~* +@connection +ping +hello +client";
    let server = stage.start(stage.builder().with_acl_user(poor));
    let address = server.url_as("poor", "secret");
    let store = stage.client.store(&address, &layout(), PATIENT);
    let gold = bucket(10);
    let error = spend(&store, &key("ann"), &gold).await;
    let error = error.expect_err("no permission");
    assert!(
        matches!(error, StoreError::Misconfigured { .. }),
        "{error:?}"
    );
    assert!(!error.is_outage() && !error.may_have_charged());
    // Held to the usual deadline, whatever it is told before it.
    let hasty = stage.client.store(&address, &layout(), DEADLINE);
    assert!(spend(&hasty, &key("ann"), &gold).await.is_err());
    grant(&server, "poor", PERMISSIONS.split(' '));
    recovers(&store, &gold, RECOVERY).await;
}

/// The ACL line of the README, word by word: all calls work, and each word is needed.
async fn user_with_the_published_permissions(stage: &Stage) {
    let user = acl_user("limiter", "*", "-@all");
    let server = stage.start(stage.builder().with_acl_user(user));
    let words: Vec<_> = PERMISSIONS.split(' ').collect();
    let granted = words.iter().filter(|word| word.starts_with('+'));
    // PING only tells a crowded or stopped server from a good one.
    let lacking = granted.filter(|word| **word != "+ping").map(Some);
    for lacking in std::iter::once(None).chain(lacking) {
        let rest = words.iter().filter(|word| Some(*word) != lacking);
        grant(&server, "limiter", rest.copied());
        server.script_flush().expect("flushed");
        server.flush_all().expect("empty");
        let failed = failures(stage.client, &server.url_as("limiter", "secret")).await;
        assert_eq!(
            failed.is_empty(),
            lacking.is_none(),
            "without {lacking:?}: {failed:?}"
        );
        assert!(
            failed
                .iter()
                .all(|error| matches!(error, StoreError::Misconfigured { .. })),
            "{failed:?}"
        );
        limiter_store_tests::no_immortal_keys(&server);
    }
}

/// Calls in each way that there is; returns what failed.
async fn failures(client: Client, address: &str) -> Vec<StoreError> {
    let (layout, ann) = (layout(), key("ann"));
    let (one, chain) = ([bucket(10)], [bucket(10), plan("daily", "sliding 10/d")]);
    let mut failed = Vec::new();
    let store = client.store(address, &layout, PATIENT);
    for plans in [&one[..], &chain[..], &one[..]] {
        failed.extend(store.try_acquire(&ann, plans, Cost::ONE).await.err());
        failed.extend(store.refund(&ann, plans, &charge(plans.len())).await.err());
        failed.extend(store.reset(&ann, plans).await.err());
    }
    let attempts = client.attempts(address, &layout, PATIENT);
    let hour = Duration::from_secs(3600);
    let tier = Tier::new("block", 1, hour).blocking_for(hour);
    let policy = AbusePolicy::builder("login").tier(tier).build();
    let policy = policy.expect("a policy");
    failed.extend(ends_by(PATIENT, attempts.record(&ann, &policy)).await.err());
    failed.extend(ends_by(PATIENT, attempts.status(&ann, &policy)).await.err());
    failed.extend(
        ends_by(PATIENT, attempts.unblock(&ann, &policy))
            .await
            .err(),
    );
    failed.extend(
        ends_by(PATIENT, attempts.forgive(&ann, &policy))
            .await
            .err(),
    );
    failed
}

/// A call is refused as a whole: also that of a user that may write but not expire, on keys new and old.
async fn user_that_may_not_expire_writes_nothing(stage: &Stage) {
    let user = acl_user("limiter", "*", &PERMISSIONS.replace(" +pexpire", ""));
    let server = stage.start(stage.builder().with_acl_user(user));
    let layout = layout();
    let address = server.url_as("limiter", "secret");
    let store = stage.client.store(&address, &layout, PATIENT);
    let admin = stage.client.store(&server.url(), &layout, PATIENT);
    let (short, long) = (plan("gold", "10/s"), plan("gold", "1/h burst 10"));
    let chain = [long.clone(), plan("daily", "sliding 10/d")];
    let attempts = stage.client.attempts(&address, &layout, PATIENT);
    let by_admin = stage.client.attempts(&server.url(), &layout, PATIENT);
    let hour = Duration::from_secs(3600);
    let policy = |threshold| {
        let policy = AbusePolicy::builder("login").tier(Tier::new("block", threshold, hour));
        policy.build().expect("a policy")
    };
    // Of what the one keeps, the other needs nothing.
    let (policy, strict) = (policy(100), policy(1));
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
        // None, one in a chunk, one less than fill it, and as many; then several chunks, of which the newest has few.
        for recorded in [0, 1, 70, 1, 77, 20] {
            for _ in 0..recorded {
                let said = ends_by(PATIENT, by_admin.record(&user, &policy)).await;
                let _ = said.expect("an answer");
            }
            let state = || {
                let name = layout.name_under(&user, policy.name());
                server.command(&[&b"HGETALL"[..], &name]).expect("get")
            };
            let before = state();
            for policy in [&policy, &strict] {
                let error = ends_by(PATIENT, attempts.record(&user, policy)).await;
                let error = error.expect_err("no permission");
                assert!(!error.may_have_charged(), "{error:?}");
                assert_eq!(state(), before, "{name} key, {recorded} attempts more");
            }
        }
    }
}

/// `+select` is what a database other than 0 needs besides; once it is granted, the store works by itself.
async fn user_of_another_database(stage: &Stage) {
    let rich = format!("{PERMISSIONS} {OTHER_DATABASE}");
    let server = stage.start(
        stage
            .builder()
            .with_acl_user(acl_user("rich", "*", &rich))
            .with_acl_user(acl_user("poor", "*", PERMISSIONS)),
    );
    let (layout, gold) = (layout(), bucket(10));
    let address = |user: &str| format!("{}/3", server.url_as(user, "secret").trim_end_matches('/'));
    let store = stage.client.store(&address("rich"), &layout, PATIENT);
    let said = spend(&store, &key("ann"), &gold).await;
    assert!(said.expect("an answer").admitted);
    assert!(server.keys().expect("keys").is_empty(), "not in database 0");
    let store = stage.client.store(&address("poor"), &layout, PATIENT);
    let error = spend(&store, &key("ann"), &gold).await;
    let error = error.expect_err("no permission to select");
    let misconfigured = matches!(error, StoreError::Misconfigured { .. });
    assert!(misconfigured && !error.may_have_charged(), "{error:?}");
    grant(&server, "poor", [OTHER_DATABASE]);
    recovers(&store, &gold, RECOVERY).await;
}

/// What the other tests grant is what users are told to grant.
#[test]
fn readmes_publish_the_permissions_of_the_tests() {
    for (client, readme) in [
        (
            Client::Redis,
            include_str!("../../../../crates/limiter-redis/README.md"),
        ),
        (
            Client::Fred,
            include_str!("../../../../crates/limiter-fred/README.md"),
        ),
    ] {
        for (name, permissions) in [("limiter", PERMISSIONS), ("visitors", SESSION_PERMISSIONS)] {
            let line = format!("user {}", acl_user(name, "rl:*", permissions));
            assert!(
                readme.lines().any(|published| published == line),
                "{client:?}: {line}"
            );
        }
        let besides = format!(
            "A cluster needs `{IN_A_CLUSTER}` as well, a server behind sentinels `{BEHIND_SENTINELS}`, a database other than 0 \
             `{OTHER_DATABASE}`."
        );
        assert!(readme.contains(&besides), "{client:?}: {besides}");
    }
}

/// A charge of one unit under so many plans.
fn charge(plans: usize) -> Refund {
    Refund {
        source: Source::Store,
        charged_at: std::iter::repeat_n(Some(Timestamp::EPOCH), plans).collect(),
        charged: Cost::ONE,
        given_back: 0,
        units: Cost::ONE,
    }
}
