//! [`ManualClock`]: a clock that tests turn by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use limiter_core::{Clock, Timestamp};

/// A clock that goes forward, back and skewed, and only when it is told to.
///
/// Clones share one time. It starts at noon UTC of 1 January 2026.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use limiter_core::Clock;
/// use limiter_testkit::{ManualClock, Skew};
///
/// let clock = ManualClock::new();
/// let ahead = clock.skewed(Skew::Ahead(Duration::from_millis(50)));
/// let start = clock.now();
/// clock.advance(Duration::from_secs(2));
/// clock.step_back(Duration::from_secs(1));
/// assert_eq!(clock.now().since(start), Duration::from_secs(1));
/// assert_eq!(ahead.now().since(clock.now()), Duration::from_millis(50));
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    micros: Arc<AtomicU64>,
    skew: Skew,
}

/// How far a clock is off the time that it shares with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skew {
    /// It shows a later time.
    Ahead(Duration),
    /// It shows an earlier time.
    Behind(Duration),
}

/// Noon UTC of 1 January 2026.
const START_US: u64 = 1_767_268_800_000_000;

impl ManualClock {
    /// Starts a clock at noon UTC of 1 January 2026.
    #[must_use]
    pub fn new() -> Self {
        Self {
            micros: Arc::new(AtomicU64::new(START_US)),
            skew: Skew::Ahead(Duration::ZERO),
        }
    }

    /// Returns a second clock that runs on the same time, and shows it with `skew`.
    #[must_use]
    pub fn skewed(&self, skew: Skew) -> Self {
        Self {
            micros: Arc::clone(&self.micros),
            skew,
        }
    }

    /// Sets the shared time to `moment`.
    pub fn set(&self, moment: Timestamp) {
        self.micros.store(moment.as_micros(), Ordering::SeqCst);
    }

    /// Turns the shared time forward, at most to [`Timestamp::MAX`].
    pub fn advance(&self, by: Duration) {
        self.turn(|time| time.saturating_add(by));
    }

    /// Turns the shared time back, at most to the epoch.
    pub fn step_back(&self, by: Duration) {
        self.turn(|time| time.saturating_sub(by));
    }

    fn turn(&self, turned: impl Fn(Timestamp) -> Timestamp) {
        let by_micros = |micros| Some(turned(timestamp(micros)).as_micros());
        let _ = self
            .micros
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, by_micros);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let time = timestamp(self.micros.load(Ordering::SeqCst));
        match self.skew {
            Skew::Ahead(by) => time.saturating_add(by),
            Skew::Behind(by) => time.saturating_sub(by),
        }
    }
}

fn timestamp(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_one_time() {
        let clock = ManualClock::new();
        let clone = clock.clone();
        clone.advance(Duration::from_micros(1));
        assert_eq!(clock.now().as_micros(), START_US + 1);
        clock.set(Timestamp::EPOCH);
        assert_eq!(clone.now(), Timestamp::EPOCH);
    }

    #[test]
    fn time_stops_at_both_ends() {
        let clock = ManualClock::new();
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), Timestamp::MAX);
        clock.step_back(Duration::MAX);
        assert_eq!(clock.now(), Timestamp::EPOCH);
    }

    #[test]
    fn skewed_clock_stays_off_by_its_skew() {
        let clock = ManualClock::new();
        let behind = clock.skewed(Skew::Behind(Duration::from_secs(3)));
        clock.advance(Duration::from_secs(10));
        assert_eq!(clock.now().since(behind.now()), Duration::from_secs(3));
    }
}
