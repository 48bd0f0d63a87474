//! Who is one session, and for how long.

use std::time::Duration;

use limiter_core::{Clock, hours, seconds};
use limiter_sessions::{BY_FINGERPRINT_MAX, Retention};

use super::super::SessionStoreUnderTest;
use super::probe::{KEEP, MICROSECOND, Probe, keep, likely, visit};

/// The same fingerprint from the same address is one session, and every field of it is told.
pub async fn same_fingerprint_and_address_are_one_session(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    let visit = visit(1, 1)
        .with_bot_probability(likely(750_000))
        .with_country("us".parse().expect("a country"));
    let began = probe.clock.now();
    let first = probe.observe(&visit).await;
    assert!(first.is_new && first.in_signals);
    probe.advance(seconds(5));
    let second = probe.observe(&visit).await;
    assert!(!second.is_new);
    let session = second.session;
    assert_eq!(session.id, first.session.id);
    assert_eq!(
        (session.fingerprint, session.ip),
        (visit.fingerprint, visit.ip)
    );
    assert_eq!(
        (session.first_seen, session.last_seen),
        (began, probe.clock.now())
    );
    assert_eq!(
        session.expires_at,
        probe.clock.now().saturating_add(KEEP.get())
    );
    assert_eq!(session.request_count, 2);
    assert_eq!(
        (session.bot_probability, session.country),
        (visit.bot_probability, visit.country)
    );
    assert_eq!(probe.get(&session.id).await, Some(session));
}

/// Another fingerprint or another address is another session, with another id.
pub async fn other_fingerprint_or_address_is_another_session(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    let mut ids = Vec::new();
    for nth in 0..4 {
        let seen = probe.observe(&visit(nth / 2, nth % 2)).await;
        assert!(seen.is_new);
        ids.push(seen.session.id);
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

/// A clock that steps back counts as standing still: the request counts, `last_seen` stays.
pub async fn last_seen_never_moves_back(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    let before = probe.observe(&visit(1, 1)).await.session;
    probe.clock.step_back(seconds(30));
    let after = probe.observe(&visit(1, 1)).await.session;
    assert_eq!(
        (after.last_seen, after.expires_at),
        (before.last_seen, before.expires_at)
    );
    let touched = probe.touch(&after.id).await.expect("it lives");
    assert_eq!(
        (touched.last_seen, touched.request_count),
        (before.last_seen, 3)
    );
    let signal = probe.signal(&visit(1, 1)).await.expect("it was seen");
    assert_eq!(signal.last_seen, before.last_seen);
}

/// A bot probability and a country stay as they were last told; a visit that tells none changes none.
pub async fn told_values_stay_until_told_anew(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    let plain = visit(1, 1);
    let session = probe.observe(&plain).await.session;
    assert_eq!((session.bot_probability, session.country), (None, None));
    let told = plain.with_bot_probability(likely(0));
    assert_eq!(
        probe.observe(&told).await.session.bot_probability,
        Some(likely(0))
    );
    let country = "DE".parse().expect("a country");
    let session = probe.observe(&plain.with_country(country)).await.session;
    assert_eq!(
        (session.bot_probability, session.country),
        (Some(likely(0)), Some(country))
    );
    let told = plain.with_bot_probability(likely(1_000_000));
    let session = probe.observe(&told).await.session;
    assert_eq!(
        (session.bot_probability, session.country),
        (Some(likely(1_000_000)), Some(country))
    );
    let session = probe.touch(&session.id).await.expect("it lives");
    assert_eq!(
        (session.bot_probability, session.country),
        (Some(likely(1_000_000)), Some(country))
    );
}

/// A session lives until the last microsecond of its retention, by whatever way it is asked for, and not one more.
pub async fn session_lives_exactly_for_its_retention(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    let id = probe.observe(&visit(1, 1)).await.session.id;
    probe.advance(KEEP.get() - MICROSECOND);
    assert!(probe.get(&id).await.is_some());
    assert_eq!(probe.ids_of(&visit(1, 1)).await, [id]);
    probe.advance(MICROSECOND);
    assert_eq!(probe.get(&id).await, None);
    assert_eq!(probe.touch(&id).await, None);
    assert_eq!(probe.ids_of(&visit(1, 1)).await, []);
    assert!(!probe.end(&id).await);
    let anew = probe.observe(&visit(1, 1)).await;
    assert!(anew.is_new && anew.session.id != id);
    assert_eq!(
        (anew.session.request_count, anew.session.first_seen),
        (1, probe.clock.now())
    );
    assert_eq!(probe.ids_of(&visit(1, 1)).await, [anew.session.id]);
}

/// How long a session is kept is said with each visit; the last word counts.
pub async fn retention_is_by_choice(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    for retention in [
        Retention::DAY,
        Retention::HOUR,
        keep(Duration::from_millis(1500)),
    ] {
        let seen = probe.store.observe(&visit(1, 1), retention).await;
        let session = seen.expect("observe answers").session;
        assert_eq!(session.expires_at.since(probe.clock.now()), retention.get());
        assert!(probe.get(&session.id).await.is_some());
    }
    probe.advance(Duration::from_millis(1500));
    assert_eq!(probe.ids_of(&visit(1, 1)).await, []);
}

/// A request of a session that is known by its id counts, and prolongs its life; the signals of its address stay as they are.
pub async fn touching_counts_and_prolongs(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    let id = probe.observe(&visit(1, 1)).await.session.id;
    for count in 2..=4 {
        probe.advance(KEEP.get() - MICROSECOND);
        let session = probe.touch(&id).await.expect("it lives");
        assert_eq!(session.request_count, count);
        assert_eq!(session.last_seen, probe.clock.now());
        assert_eq!(probe.get(&id).await, Some(session));
    }
    assert_eq!(probe.ids_of(&visit(1, 1)).await, [id]);
    assert_eq!(probe.signal(&visit(1, 1)).await, None);
}

/// The sessions of a fingerprint are listed, that which lives longest first; other fingerprints' are not.
pub async fn sessions_of_a_fingerprint_are_listed_longest_first(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    let mut ids = Vec::new();
    for nth in 0..3 {
        ids.push(probe.observe(&visit(1, nth)).await.session.id);
        probe.advance(seconds(1));
    }
    let stranger = probe.observe(&visit(2, 0)).await.session.id;
    assert_eq!(probe.ids_of(&visit(1, 0)).await, [ids[2], ids[1], ids[0]]);
    let _ = probe.touch(&ids[0]).await;
    assert_eq!(probe.ids_of(&visit(1, 0)).await, [ids[0], ids[2], ids[1]]);
    assert_eq!(probe.ids_of(&visit(2, 0)).await, [stranger]);
    assert_eq!(probe.ids_of(&visit(3, 0)).await, []);
    probe.advance(hours(1) - seconds(1));
    assert_eq!(probe.ids_of(&visit(1, 0)).await, [ids[0]]);
}

/// However many addresses show a fingerprint, and however often, exactly the newest thousand sessions are listed.
pub async fn sessions_of_a_fingerprint_are_bounded(sut: &impl SessionStoreUnderTest) {
    const TOO_MANY: u32 = 50;
    let probe = Probe::of(sut);
    let most = u32::try_from(BY_FINGERPRINT_MAX).expect("a small number");
    let again = 0..TOO_MANY;
    let mut seen = Vec::new();
    for nth in (0..most + TOO_MANY).chain(again) {
        let id = probe.observe(&visit(1, nth)).await.session.id;
        seen.retain(|known| *known != id);
        seen.push(id);
        probe.advance(MICROSECOND);
    }
    let newest: Vec<_> = seen.into_iter().rev().take(BY_FINGERPRINT_MAX).collect();
    let ids = probe.ids_of(&visit(1, 0)).await;
    assert_eq!(ids.len(), BY_FINGERPRINT_MAX);
    assert!(ids == newest, "others than the newest are listed");
}
