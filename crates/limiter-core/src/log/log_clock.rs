//! [`LogClock`]: the clock of log lines.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::{Clock, Timestamp};

/// Tells how much time has passed since it was first asked. It only spaces log lines: nothing is decided by it.
pub(super) struct LogClock;

static BEGAN: OnceLock<Instant> = OnceLock::new();

impl Clock for LogClock {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH.saturating_add(passed())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "only log lines depend on it: who sets nothing up has no clock to give, and must hear of failures all the same"
)]
fn passed() -> Duration {
    BEGAN.get_or_init(Instant::now).elapsed()
}
