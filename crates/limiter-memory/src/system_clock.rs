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
    /// The length of a tick, as a part of 2^[`FRACTION_BITS`] microseconds.
    tick: u64,
}

/// A tick may thus be as long as 256 microseconds.
const FRACTION_BITS: u32 = 56;
/// The length of a tick is found as that of so many bits' worth of ticks: less than a nanosecond is lost in each 2^40 of them.
const SAMPLE_BITS: u32 = 40;

impl SystemClock {
    /// Reads the wall clock, for the last time.
    #[must_use]
    pub fn new() -> Self {
        let counter = quanta::Clock::new();
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let sample_ns = counter.delta_as_nanos(0, 1 << SAMPLE_BITS);
        let tick = (u128::from(sample_ns) << (FRACTION_BITS - SAMPLE_BITS)) / 1_000;
        Self {
            tick: u64::try_from(tick).unwrap_or(u64::MAX),
            started: counter.raw(),
            started_us: u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX),
            counter,
        }
    }

    /// Reads the counter.
    #[inline]
    pub(crate) fn ticks(&self) -> u64 {
        self.counter.raw()
    }

    /// Returns the moment at which the counter showed `ticks`.
    #[inline]
    pub(crate) fn moment(&self, ticks: u64) -> Timestamp {
        let elapsed = ticks.saturating_sub(self.started);
        let elapsed_us = (u128::from(elapsed) * u128::from(self.tick)) >> FRACTION_BITS;
        let elapsed_us = u64::try_from(elapsed_us).unwrap_or(u64::MAX);
        let now_us = self.started_us.saturating_add(elapsed_us);
        Timestamp::from_micros(now_us).unwrap_or(Timestamp::MAX)
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.moment(self.ticks())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ticks_are_as_long_as_the_counter_says() {
        let clock = SystemClock::new();
        for bits in [0, 10, 20, 30, 40, 50] {
            let ticks = clock.started + (1 << bits);
            let us = clock.moment(ticks).as_micros() - clock.started_us;
            let counted_us = clock.counter.delta_as_nanos(clock.started, ticks) / 1_000;
            let apart_us = us.abs_diff(counted_us);
            assert!(apart_us <= 2, "2^{bits} ticks: {us} and {counted_us} us");
        }
        assert_eq!(clock.moment(0).as_micros(), clock.started_us);
    }

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
