//! [`CallWindow`]: how the calls of the last while went.

use std::time::Duration;

use crate::Timestamp;

const SLICES: usize = 10;

/// Counts of calls over a sliding time, in ten slices.
#[derive(Debug)]
pub(super) struct CallWindow {
    slice_us: u64,
    slices: [Slice; SLICES],
}

#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    number: u64,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) calls: u64,
    pub(super) failed: u64,
    pub(super) slow: u64,
}

/// How one call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallResult {
    pub(super) failed: bool,
    pub(super) slow: bool,
    /// The store gave no answer of use: the call failed, or its caller gave it up when it had become slow.
    pub(super) unanswered: bool,
}

impl CallWindow {
    pub(super) fn new(window: Duration) -> Self {
        let window_us = u64::try_from(window.as_micros()).unwrap_or(u64::MAX);
        Self {
            slice_us: (window_us / SLICES as u64).max(1),
            slices: [Slice::default(); SLICES],
        }
    }

    /// Counts a call that ended `now`, and returns the counts of the whole window.
    pub(super) fn count(&mut self, now: Timestamp, result: CallResult) -> Counts {
        let number = now.as_micros() / self.slice_us;
        let place = usize::try_from(number % SLICES as u64).unwrap_or(0);
        if let Some(slice) = self.slices.get_mut(place) {
            if slice.number != number {
                *slice = Slice {
                    number,
                    counts: Counts::default(),
                };
            }
            slice.counts.calls += 1;
            slice.counts.failed += u64::from(result.failed);
            slice.counts.slow += u64::from(result.slow);
        }
        self.totals(number)
    }

    fn totals(&self, newest: u64) -> Counts {
        let in_window =
            |slice: &&Slice| slice.number <= newest && newest - slice.number < SLICES as u64;
        self.slices
            .iter()
            .filter(in_window)
            .fold(Counts::default(), |sum, slice| Counts {
                calls: sum.calls + slice.counts.calls,
                failed: sum.failed + slice.counts.failed,
                slow: sum.slow + slice.counts.slow,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: CallResult = CallResult {
        failed: true,
        slow: false,
        unanswered: true,
    };

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000 + seconds * 1_000_000).unwrap()
    }

    #[test]
    fn calls_are_counted_until_the_window_has_passed_them() {
        let mut window = CallWindow::new(Duration::from_secs(10));
        assert_eq!(window.count(at(0), FAILED).failed, 1);
        assert_eq!(window.count(at(9), FAILED).failed, 2);
        assert_eq!(window.count(at(10), FAILED).failed, 2);
        assert_eq!(
            window.count(at(60), FAILED),
            Counts {
                calls: 1,
                failed: 1,
                slow: 0
            }
        );
    }

    #[test]
    fn a_clock_that_steps_back_does_not_count_the_future() {
        let mut window = CallWindow::new(Duration::from_secs(10));
        window.count(at(5), FAILED);
        assert_eq!(window.count(at(1), FAILED).calls, 1);
    }
}
