//! The newest thousand of each severity, in order.

use std::collections::BTreeMap;

use limiter_core::{Clock, Timestamp, seconds};
use limiter_sessions::{Anomaly, FEED_MAX, FEED_RETENTION, Label, Reported, SessionId, Severity};

use super::super::SessionStoreUnderTest;
use super::probe::{MICROSECOND, Probe};

fn anomaly(severity: Severity, note: &str) -> Anomaly {
    let kind = Label::new("odd.visit_1").expect("a label");
    Anomaly::new(severity, kind).with_note(note)
}

impl Probe {
    async fn push(&self, anomaly: &Anomaly) {
        self.store.push(anomaly).await.expect("push is confirmed");
    }

    async fn recent(&self, severity: Severity, since: Timestamp, limit: usize) -> Vec<Reported> {
        let recent = self.store.recent(severity, since, limit).await;
        recent.expect("recent answers")
    }

    async fn notes(&self, since: Timestamp, limit: usize) -> Vec<String> {
        let recent = self.recent(Severity::High, since, limit).await;
        let notes = recent
            .iter()
            .map(|reported| reported.anomaly.note().to_owned());
        notes.collect()
    }
}

/// The feed is newest first, with the time of each, and keeps anomalies that are alike, down to the microsecond.
pub async fn feed_is_newest_first_and_keeps_what_is_alike(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    let alike =
        anomaly(Severity::High, "grüße: {}\r\n").in_session(SessionId::from_bytes([0xe5; 16]));
    let at = probe.clock.now();
    probe.push(&alike).await;
    probe.push(&alike).await;
    probe.advance(MICROSECOND);
    let plain = anomaly(Severity::High, "");
    probe.push(&plain).await;
    let recent = probe.recent(Severity::High, Timestamp::EPOCH, 10).await;
    let later = at.saturating_add(MICROSECOND);
    let reported = |at, anomaly: &Anomaly| Reported {
        at,
        anomaly: anomaly.clone(),
    };
    assert_eq!(
        recent,
        [
            reported(later, &plain),
            reported(at, &alike),
            reported(at, &alike)
        ]
    );
}

/// What is recent starts at a moment, that moment included, and is cut to a number.
pub async fn feed_tells_what_is_recent(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    for note in ["a", "b", "c", "d"] {
        probe.push(&anomaly(Severity::High, note)).await;
        probe.advance(seconds(1));
    }
    let at_b = probe.clock.now().saturating_sub(seconds(3));
    assert_eq!(probe.notes(at_b, 10).await, ["d", "c", "b"]);
    assert_eq!(
        probe.notes(at_b.saturating_add(MICROSECOND), 10).await,
        ["d", "c"]
    );
    assert_eq!(probe.notes(at_b, 2).await, ["d", "c"]);
    assert_eq!(probe.notes(at_b, 0).await, [""; 0]);
    assert_eq!(probe.notes(Timestamp::MAX, 10).await, [""; 0]);
    assert_eq!(probe.notes(Timestamp::EPOCH, usize::MAX).await.len(), 4);
}

/// Each severity has a feed of its own.
pub async fn severities_have_feeds_of_their_own(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    for severity in Severity::ALL {
        probe.push(&anomaly(severity, severity.as_str())).await;
    }
    for severity in Severity::ALL {
        let recent = probe.recent(severity, Timestamp::EPOCH, 10).await;
        assert_eq!(recent.len(), 1);
        assert_eq!(recent[0].anomaly, anomaly(severity, severity.as_str()));
    }
}

/// 32 writers: exactly the newest thousand stay, those of each writer in the order in which it wrote them.
pub async fn feed_keeps_exactly_the_newest_thousand_of_racing_writers(
    sut: &impl SessionStoreUnderTest,
) {
    const WRITERS: usize = 32;
    const EACH: usize = 50;
    let probe = Probe::of(sut);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = sut.store();
            tokio::spawn(async move {
                for nth in 0..EACH {
                    let anomaly = anomaly(Severity::High, &format!("{writer} {nth}"));
                    store.push(&anomaly).await.expect("push is confirmed");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("no writer panics");
    }
    let notes = probe.notes(Timestamp::EPOCH, WRITERS * EACH).await;
    assert_eq!(notes.len(), FEED_MAX);
    let mut next_older = BTreeMap::new();
    for note in &notes {
        let (writer, nth) = note.split_once(' ').expect("a note of this law");
        let nth: usize = nth.parse().expect("a number");
        let expected = next_older.insert(writer, nth).unwrap_or(EACH);
        assert_eq!(nth + 1, expected, "a gap, or out of order");
    }
    for nth in 0..FEED_MAX {
        probe.push(&anomaly(Severity::High, &nth.to_string())).await;
    }
    let notes = probe.notes(Timestamp::EPOCH, WRITERS * EACH).await;
    let expected: Vec<_> = (0..FEED_MAX).rev().map(|nth| nth.to_string()).collect();
    assert_eq!(notes, expected);
}

/// An anomaly is told of for a day, to the microsecond.
pub async fn anomalies_end_with_their_retention(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    probe.push(&anomaly(Severity::High, "a")).await;
    probe.advance(FEED_RETENTION.get() - MICROSECOND);
    probe.push(&anomaly(Severity::High, "b")).await;
    assert_eq!(probe.notes(Timestamp::EPOCH, 10).await, ["b", "a"]);
    probe.advance(MICROSECOND);
    assert_eq!(probe.notes(Timestamp::EPOCH, 10).await, ["b"]);
    probe.advance(FEED_RETENTION.get());
    assert_eq!(probe.notes(Timestamp::EPOCH, 10).await, [""; 0]);
}

/// A clock that steps back puts nothing out of order: times stand still until it has caught up.
pub async fn feed_goes_in_order_whatever_the_clock_does(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    let at = probe.clock.now();
    probe.push(&anomaly(Severity::High, "a")).await;
    probe.clock.step_back(seconds(3600));
    probe.push(&anomaly(Severity::High, "b")).await;
    assert_eq!(probe.notes(at, 10).await, ["b", "a"]);
    let recent = probe.recent(Severity::High, Timestamp::EPOCH, 1).await;
    assert_eq!(recent[0].at, at);
}
