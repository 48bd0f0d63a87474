//! [`SystemClock`]: the time of this process.

use std::time::{SystemTime, UNIX_EPOCH};

use limiter_core::{Clock, Timestamp};

/// Tells microseconds since the Unix epoch: the wall clock is read once, and from then on a monotonic counter is added.
///
/// Steps of the wall clock (NTP, an operator, a leap second) do not reach it, so nobody gains or loses by them. The
/// counter is that of the `quanta` crate: the processor's own where it is invariant, the operating system's elsewhere.
/// Reading it costs a fraction of [`std::time::Instant::now`], and a decision reads it once. The first clock of a process
/// calibrates the counter, which may take some milliseconds.
///
/// # Examples
/// ```
/// use limiter_core::Clock;
/// use limiter_memory::SystemClock;
///
/// let clock = SystemClock::new();
/// assert!(clock.now() <= clock.now());
/// ```
#[derive(Clone, Debug)]
pub struct SystemClock {
    counter: quanta::Clock,
    started: u64,
    started_us: u64,
}

impl SystemClock {
    /// Reads the wall clock, for the last time.
    #[must_use]
    pub fn new() -> Self {
        let counter = quanta::Clock::new();
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            started: counter.raw(),
            started_us: u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX),
            counter,
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let elapsed_ns = self
            .counter
            .delta_as_nanos(self.started, self.counter.raw());
        let now_us = self.started_us.saturating_add(elapsed_ns / 1_000);
        Timestamp::from_micros(now_us).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn it_starts_at_the_wall_clock_and_goes_forward() {
        let clock = SystemClock::new();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let first = clock.now();
        let apart = Duration::from_micros(first.as_micros()).abs_diff(wall);
        assert!(apart < Duration::from_secs(1), "{apart:?} apart");
        let mut last = first;
        while clock.now().since(first) < Duration::from_millis(5) {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
