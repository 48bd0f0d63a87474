//! [`TurnedClock`]: the system's clock, that can be turned forward.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use limiter_core::{Clock, Timestamp};
use limiter_memory::SystemClock;

/// The system's clock, that can be turned forward.
#[derive(Debug, Default)]
pub struct TurnedClock {
    system: SystemClock,
    ahead_us: AtomicU64,
}

impl TurnedClock {
    /// Turns the clock forward by whole seconds.
    pub fn advance_secs(&self, secs: u64) {
        self.ahead_us.fetch_add(secs * 1_000_000, Relaxed);
    }
}

impl Clock for TurnedClock {
    fn now(&self) -> Timestamp {
        let ahead = Duration::from_micros(self.ahead_us.load(Relaxed));
        self.system.now().saturating_add(ahead)
    }
}
