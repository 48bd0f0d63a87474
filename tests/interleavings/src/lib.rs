//! What the tests under a controlled scheduler share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use limiter_core::{Clock, Timestamp};

/// A clock that goes on when it is told to. Clones share one time.
#[derive(Clone, Debug, Default)]
pub struct HandTurnedClock(Arc<AtomicU64>);

impl HandTurnedClock {
    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for HandTurnedClock {
    fn now(&self) -> Timestamp {
        let noon_of_2026 = Duration::from_secs(1_767_268_800);
        let passed = Duration::from_micros(self.0.load(Ordering::SeqCst));
        Timestamp::EPOCH.saturating_add(noon_of_2026 + passed)
    }
}
