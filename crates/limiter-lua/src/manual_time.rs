//! [`ManualTime`]: a manual clock's time, as `TIME` would tell it.

use limiter_core::Timestamp;

/// A manual clock's time, as the scripts take it: seconds and microseconds.
#[derive(Clone, Debug)]
pub(crate) struct ManualTime {
    seconds: String,
    micros: String,
}

impl ManualTime {
    pub(crate) fn new(now: Timestamp) -> Self {
        let micros = now.as_micros();
        Self {
            seconds: (micros / 1_000_000).to_string(),
            micros: (micros % 1_000_000).to_string(),
        }
    }

    /// Returns the last two arguments of a script.
    pub(crate) fn args(&self) -> [&[u8]; 2] {
        [self.seconds.as_bytes(), self.micros.as_bytes()]
    }
}
