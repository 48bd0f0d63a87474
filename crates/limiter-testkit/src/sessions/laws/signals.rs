//! What is known of an address.

use limiter_core::{Clock, seconds};
use limiter_sessions::IpSignal;

use super::super::SessionStoreUnderTest;
use super::probe::{KEEP, MICROSECOND, Probe, likely, visit};

/// Sessions, fingerprints and probabilities of an address add up; requests that told no probability are left out of the mean.
pub async fn signals_add_up(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    let began = probe.clock.now();
    assert_eq!(probe.signal(&visit(1, 1)).await, None);
    for (fingerprint, bot) in [(1, Some(1)), (2, None), (1, Some(4)), (3, Some(1_000_000))] {
        let mut visit = visit(fingerprint, 1);
        visit.bot_probability = bot.map(likely);
        assert!(probe.observe(&visit).await.in_signals);
        probe.advance(seconds(1));
    }
    let signal = probe.signal(&visit(1, 1)).await.expect("it was seen");
    assert_eq!((signal.total_sessions, signal.unique_fingerprints), (3, 3));
    assert_eq!(signal.mean_bot_probability, Some(likely(1_000_005 / 3)));
    assert_eq!((signal.first_seen, signal.age()), (began, seconds(3)));
    let session = probe.observe(&visit(1, 1)).await.session;
    assert!(probe.end(&session.id).await);
    let _ = probe.observe(&visit(1, 1)).await;
    let signal = probe.signal(&visit(1, 1)).await.expect("it was seen");
    assert_eq!((signal.total_sessions, signal.unique_fingerprints), (4, 3));
}

/// Addresses do not share signals; one without a probability has no mean.
pub async fn signals_of_addresses_are_apart(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    let _ = probe
        .observe(&visit(1, 1).with_bot_probability(likely(7)))
        .await;
    let _ = probe.observe(&visit(1, 2)).await;
    let _ = probe.observe(&visit(2, 2)).await;
    let (one, two) = (
        probe.signal(&visit(1, 1)).await,
        probe.signal(&visit(1, 2)).await,
    );
    let (one, two) = (one.expect("it was seen"), two.expect("it was seen"));
    assert_eq!((one.total_sessions, one.unique_fingerprints), (1, 1));
    assert_eq!((two.total_sessions, two.unique_fingerprints), (2, 2));
    assert_eq!(
        (one.mean_bot_probability, two.mean_bot_probability),
        (Some(likely(7)), None)
    );
    assert_eq!(probe.signal(&visit(1, 3)).await, None);
}

/// An address that was quiet for an hour is as new, to the microsecond, although its session may live on.
pub async fn quiet_address_is_as_new(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    let told = visit(1, 1).with_bot_probability(likely(9));
    for _ in 0..2 {
        let _ = probe
            .store
            .observe(&told, limiter_sessions::Retention::DAY)
            .await;
    }
    probe.advance(IpSignal::RETENTION.get() - MICROSECOND);
    assert!(probe.signal(&told).await.is_some());
    probe.advance(MICROSECOND);
    assert_eq!(probe.signal(&told).await, None);
    let again = probe.store.observe(&visit(1, 1), KEEP).await;
    assert!(!again.expect("observe answers").is_new);
    let signal = probe.signal(&told).await.expect("it was seen");
    assert_eq!(
        (signal.first_seen, signal.total_sessions),
        (probe.clock.now(), 0)
    );
    assert_eq!(
        (signal.unique_fingerprints, signal.mean_bot_probability),
        (1, None)
    );
}

/// However many fingerprints an address shows, they are counted within five per cent.
pub async fn many_fingerprints_are_estimated(sut: &impl SessionStoreUnderTest) {
    const MANY: u64 = 3000;
    let probe = Probe::of(sut);
    for nth in 0..u32::try_from(MANY).expect("a small number") {
        let _ = probe.observe(&visit(nth, 1)).await;
    }
    let signal = probe.signal(&visit(1, 1)).await.expect("it was seen");
    assert_eq!(signal.total_sessions, MANY);
    assert!(
        signal.unique_fingerprints.abs_diff(MANY) <= MANY / 20,
        "{signal:?}"
    );
}
