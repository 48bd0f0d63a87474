//! [`BreakerSettings`]: when a circuit breaker opens, and for how long.

use std::time::Duration;

/// When a circuit breaker opens, and for how long.
///
/// | setting | default | refused, with [`InvalidBreakerSettings`] | its rule |
/// |---|---|---|---|
/// | `window` | 10 s | below 1 s or above 1 h | `window must be 1 s to 1 h` |
/// | `min_calls` | 20 | 0 | `min_calls must be at least 1` |
/// | `failure_percent` | 50 | 0 or above 100 | `failure_percent must be 1 to 100` |
/// | `slow_call` | 25 ms (half the default deadline) | zero | `slow_call must be above zero` |
/// | `slow_percent` | 80 | 0 or above 100 | `slow_percent must be 1 to 100` |
/// | `silent_calls` | 10 | 0 | `silent_calls must be at least 1` |
/// | `silent_for` | 250 ms | above 1 h | `silent_for must be at most 1 h` |
/// | `open_for`, doubled at each relapse | 100 ms | below 1 ms | `open_for must be at least 1 ms` |
/// | | | above `open_at_most` | `open_for must not exceed open_at_most` |
/// | `open_at_most` | 220 ms | above 1 h | `open_at_most must be at most 1 h` |
/// | `probe_limit` | 500 ms | below 1 ms or above 1 h | `probe_limit must be 1 ms to 1 h` |
/// | `successes_to_close` | 5 | 0 | `successes_to_close must be at least 1` |
///
/// Of several settings that are refused, the error names the one that stands first here.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use limiter_core::BreakerSettings;
///
/// let settings = BreakerSettings::new().with_min_calls(50).with_slow_call(Duration::from_millis(10));
/// assert!(settings.check().is_ok());
/// assert!(BreakerSettings::new().with_failure_percent(0).check().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "settings do nothing until a breaker gets them"]
pub struct BreakerSettings {
    pub(super) window: Duration,
    pub(super) min_calls: u32,
    pub(super) failure_percent: u32,
    pub(super) slow_call: Duration,
    pub(super) slow_percent: u32,
    pub(super) silent_calls: u32,
    pub(super) silent_for: Duration,
    pub(super) open_for: Duration,
    pub(super) open_at_most: Duration,
    pub(super) probe_limit: Duration,
    pub(super) successes_to_close: u32,
}

const HOUR: Duration = Duration::from_hours(1);

impl BreakerSettings {
    /// Starts from the defaults.
    pub const fn new() -> Self {
        Self {
            window: Duration::from_secs(10),
            min_calls: 20,
            failure_percent: 50,
            slow_call: Duration::from_millis(25),
            slow_percent: 80,
            silent_calls: 10,
            silent_for: Duration::from_millis(250),
            open_for: Duration::from_millis(100),
            open_at_most: Duration::from_millis(220),
            probe_limit: Duration::from_millis(500),
            successes_to_close: 5,
        }
    }

    /// Judges the calls of the last `window`.
    pub const fn with_window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Judges only once there were `calls` in the window.
    pub const fn with_min_calls(mut self, calls: u32) -> Self {
        self.min_calls = calls;
        self
    }

    /// Opens when at least `percent` of the calls failed.
    pub const fn with_failure_percent(mut self, percent: u32) -> Self {
        self.failure_percent = percent;
        self
    }

    /// Calls a call slow that takes longer than `duration`.
    pub const fn with_slow_call(mut self, duration: Duration) -> Self {
        self.slow_call = duration;
        self
    }

    /// Opens when at least `percent` of the calls were slow.
    pub const fn with_slow_percent(mut self, percent: u32) -> Self {
        self.slow_percent = percent;
        self
    }

    /// Opens also when `calls` in a row were not answered, over at least `lasting`, however well the calls before them went.
    ///
    /// A call is not answered if it failed, or if its caller gave it up after it had become slow. With `u32::MAX` calls only the shares
    /// of failed and slow ones count.
    pub const fn with_silence(mut self, calls: u32, lasting: Duration) -> Self {
        self.silent_calls = calls;
        self.silent_for = lasting;
        self
    }

    /// Leaves the store alone for `first`, twice as long after each failed probe, and never longer than `most`; each
    /// time a fifth longer or shorter by chance, so that many nodes do not come back at once.
    pub const fn with_open_for(mut self, first: Duration, most: Duration) -> Self {
        self.open_for = first;
        self.open_at_most = most;
        self
    }

    /// Takes a probe that has not ended within `limit` for a bad one. It goes on, if it still does; but it keeps nobody out.
    pub const fn with_probe_limit(mut self, limit: Duration) -> Self {
        self.probe_limit = limit;
        self
    }

    /// Closes after `successes` probes in a row.
    pub const fn with_successes_to_close(mut self, successes: u32) -> Self {
        self.successes_to_close = successes;
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`InvalidBreakerSettings`] for the first setting outside the bounds of the table above.
    pub fn check(&self) -> Result<(), InvalidBreakerSettings> {
        let percent = 1..=100;
        let rules = [
            (
                (Duration::from_secs(1)..=HOUR).contains(&self.window),
                "window must be 1 s to 1 h",
            ),
            (self.min_calls >= 1, "min_calls must be at least 1"),
            (
                percent.contains(&self.failure_percent),
                "failure_percent must be 1 to 100",
            ),
            (!self.slow_call.is_zero(), "slow_call must be above zero"),
            (
                percent.contains(&self.slow_percent),
                "slow_percent must be 1 to 100",
            ),
            (self.silent_calls >= 1, "silent_calls must be at least 1"),
            (self.silent_for <= HOUR, "silent_for must be at most 1 h"),
            (
                self.open_for >= Duration::from_millis(1),
                "open_for must be at least 1 ms",
            ),
            (
                self.open_for <= self.open_at_most,
                "open_for must not exceed open_at_most",
            ),
            (
                self.open_at_most <= HOUR,
                "open_at_most must be at most 1 h",
            ),
            (
                (Duration::from_millis(1)..=HOUR).contains(&self.probe_limit),
                "probe_limit must be 1 ms to 1 h",
            ),
            (
                self.successes_to_close >= 1,
                "successes_to_close must be at least 1",
            ),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(InvalidBreakerSettings { rule }),
            None => Ok(()),
        }
    }
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self::new()
    }
}

/// Says which setting of a circuit breaker is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("circuit breaker settings are not allowed: {rule}")]
pub struct InvalidBreakerSettings {
    rule: &'static str,
}
