//! [`Feed`]: the newest anomalies of one severity.

use std::collections::VecDeque;

use limiter_core::Timestamp;
use limiter_sessions::{Anomaly, FEED_MAX, FEED_RETENTION, Reported};

/// The newest anomalies of one severity, the oldest first.
#[derive(Default)]
pub(super) struct Feed(VecDeque<Reported>);

impl Feed {
    /// Takes an anomaly in, no earlier than the one before it.
    pub(super) fn push(&mut self, anomaly: &Anomaly, now: Timestamp) {
        let at = self.0.back().map_or(now, |last| last.at.max(now));
        while self.0.len() >= FEED_MAX {
            self.0.pop_front();
        }
        let anomaly = anomaly.clone();
        self.0.push_back(Reported { at, anomaly });
    }

    /// Returns the newest `limit` of `since` or later.
    pub(super) fn recent(&self, since: Timestamp, limit: usize, now: Timestamp) -> Vec<Reported> {
        let counts = |reported: &&Reported| {
            reported.at >= since && now < reported.at.saturating_add(FEED_RETENTION.get())
        };
        let newest = self.0.iter().rev().take_while(counts);
        newest.take(limit).cloned().collect()
    }

    /// Frees what is too old.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        let ended = |first: &Reported| first.at.saturating_add(FEED_RETENTION.get()) <= now;
        while self.0.front().is_some_and(ended) {
            self.0.pop_front();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
