//! [`Silence`]: calls in a row that the store gave no answer to.

use std::time::Duration;

use crate::Timestamp;

/// Counts the calls since the last answer.
///
/// The share of calls that failed says late that a store fell silent: whatever it answered in the last while stands against it.
#[derive(Debug, Default)]
pub(super) struct Silence {
    calls: u32,
    since: Option<Timestamp>,
}

impl Silence {
    /// Counts a call that ended `now`.
    pub(super) fn count(&mut self, now: Timestamp, unanswered: bool) {
        if !unanswered {
            *self = Self::default();
            return;
        }
        self.calls = self.calls.saturating_add(1);
        // A clock that stepped back must not make the silence begin in the future.
        self.since = Some(self.since.map_or(now, |since| since.min(now)));
    }

    /// Returns whether there were at least so many calls, over at least so long.
    pub(super) fn reaches(&self, now: Timestamp, calls: u32, lasting: Duration) -> bool {
        let lasts = self.since.map(|since| now.since(since));
        self.calls >= calls && lasts.is_some_and(|lasts| lasts >= lasting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(250);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000 + millis * 1_000).unwrap()
    }

    #[test]
    fn silence_takes_both_calls_and_time() {
        let mut silence = Silence::default();
        for nth in 0..10 {
            assert!(!silence.reaches(at(nth * 30), 10, SHORT));
            silence.count(at(nth * 30), true);
        }
        assert!(silence.reaches(at(270), 10, SHORT));
        let mut silence = Silence::default();
        for _ in 0..1000 {
            silence.count(at(0), true);
        }
        assert!(!silence.reaches(at(249), 10, SHORT));
    }

    #[test]
    fn one_answer_ends_it() {
        let mut silence = Silence::default();
        for nth in 0..9 {
            silence.count(at(nth * 100), true);
        }
        silence.count(at(900), false);
        silence.count(at(901), true);
        assert!(!silence.reaches(at(10_000), 10, SHORT));
    }

    #[test]
    fn clock_that_steps_back_an_hour_does_not_hide_it() {
        let mut silence = Silence::default();
        silence.count(at(3_600_000), true);
        for nth in 0..10 {
            silence.count(at(nth * 30), true);
        }
        assert!(silence.reaches(at(270), 10, SHORT));
    }
}
