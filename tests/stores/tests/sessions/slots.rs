//! Sessions in slots of a cluster that move.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use limiter_lua::SessionNames;
use limiter_sessions::TagKey;
use limiter_store_tests::{Client, DEADLINE, PATIENT, Stage, faults_on_clients, in_time, layout};

use crate::{KEEP, connected, visit};

faults_on_clients! {
    session_in_a_moving_slot_is_counted_exactly
    new_session_in_a_moving_slot_fails_in_time_and_does_not_count
}

/// A session is asked for while its slot moves, key by key: who waits for it is answered, and nothing is counted twice. fred
/// cannot be sent after a slot, and fails in time instead.
async fn session_in_a_moving_slot_is_counted_exactly(stage: &Stage) {
    let cluster = stage.cluster();
    let layout = layout();
    let deadline = match stage.client {
        Client::Redis => PATIENT,
        Client::Fred => DEADLINE,
    };
    let store = stage.client.sessions(&cluster.address(), &layout, deadline);
    connected(&store).await;
    let patient = stage.client.sessions(&cluster.address(), &layout, PATIENT);
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
    if stage.client == Client::Redis {
        assert_eq!((unsure, refused), (0, 0), "of {counted}");
    }
    let fresh = stage.client.sessions(&cluster.address(), &layout, PATIENT);
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
async fn new_session_in_a_moving_slot_fails_in_time_and_does_not_count(stage: &Stage) {
    let cluster = stage.cluster();
    let layout = layout();
    let store = stage.client.sessions(&cluster.address(), &layout, DEADLINE);
    connected(&store).await;
    let patient = stage.client.sessions(&cluster.address(), &layout, PATIENT);
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
    let fresh = stage.client.sessions(&cluster.address(), &layout, PATIENT);
    let seen = fresh.observe(&elsewhere, KEEP).await.expect("an answer");
    assert!(seen.is_new && seen.in_signals);
    assert!(fresh.get(&known.id).await.expect("an answer").is_some());
}
