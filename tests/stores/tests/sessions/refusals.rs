//! Servers that refuse: for want of a permission, or of memory.

use limiter_core::{StoreError, Timestamp};
use limiter_lua::{KeyLayout, SessionNames};
use limiter_sessions::{
    BY_FINGERPRINT_MAX, BotProbability, Label, SessionId, Severity, TagKey, Visit,
};
use limiter_store_tests::{
    PATIENT, Sessions, Stage, faults_on_clients, key, layout, no_immortal_keys,
};
use limiter_testkit::rig::{SESSION_PERMISSIONS, acl_user};
use limiter_testkit::server::RedisServer;

use crate::{KEEP, everything, nonce, visit, visit_of, write_all};

faults_on_clients! {
    user_who_may_not_expire_leaves_nothing_for_ever
    server_that_lacks_memory_refuses_as_a_whole
    user_with_the_published_permissions
}

/// A user who may write but not expire gets an error: no key stays for ever, and nothing that was there is lost or changed.
async fn user_who_may_not_expire_leaves_nothing_for_ever(stage: &Stage) {
    let acl = "limiter on >secret ~* resetchannels +@all -pexpire";
    let server = stage.start(stage.builder().with_acl_user(acl));
    let layout = layout();
    let store = stage
        .client
        .sessions(&server.url_as("limiter", "secret"), &layout, PATIENT);
    refused(&write_all(&store, &visit(), None).await);
    assert_eq!(server.keys().expect("keys"), Vec::<Vec<u8>>::new());

    let admin = stage.client.sessions(&server.url(), &layout, PATIENT);
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
async fn server_that_lacks_memory_refuses_as_a_whole(stage: &Stage) {
    let server = stage.server();
    let store = stage.client.sessions(&server.url(), &layout(), PATIENT);
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

/// Checks that each of the calls was refused for want of a permission, as a whole.
fn refused(errors: &[StoreError]) {
    assert!(!errors.is_empty());
    for error in errors {
        assert!(!error.is_outage() && !error.may_have_charged(), "{error:?}");
        assert!(error.to_string().contains("ACL line"), "{error}");
    }
}

/// What the README grants is enough, and each word is needed. Whichever is lacking: the error says so, no key stays for ever, and
/// a call that says it changed nothing did not count.
async fn user_with_the_published_permissions(stage: &Stage) {
    let user = acl_user("limiter", "*", "-@all");
    let server = stage.start(stage.builder().with_acl_user(user));
    let words: Vec<_> = SESSION_PERMISSIONS.split(' ').collect();
    let granted = words.iter().filter(|word| word.starts_with('+'));
    // PING only tells a crowded or stopped server from a good one.
    let lacking = granted.filter(|word| **word != "+ping").map(Some);
    for lacking in std::iter::once(None).chain(lacking) {
        let mut set = vec!["ACL", "SETUSER", "limiter"];
        set.extend(words.iter().filter(|word| Some(*word) != lacking));
        server.command(&set).expect("set");
        server.script_flush().expect("flushed");
        server.flush_all().expect("empty");
        let layout = layout();
        let store = stage
            .client
            .sessions(&server.url_as("limiter", "secret"), &layout, PATIENT);
        let admin = stage.client.sessions(&server.url(), &layout, PATIENT);
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
