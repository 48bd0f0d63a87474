//! [`IpSignal`]: what is known of an address.

use std::time::Duration;

use limiter_core::Timestamp;

use crate::{BotProbability, Retention};

/// What is known of an address, since it was last quiet for an hour.
///
/// It is told by visits that are [observed](crate::SessionStore::observe). A [touch](crate::SessionStore::touch) counts in the
/// session alone: it names no address, and neither moves what is here nor keeps it from being forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IpSignal {
    /// When the first visit came.
    pub first_seen: Timestamp,
    /// When the latest visit came.
    pub last_seen: Timestamp,
    /// How many sessions began.
    pub total_sessions: u64,
    /// How many fingerprints were seen: one is exact, several are a `HyperLogLog`'s estimate, off by a few per cent at most as a rule.
    /// The in-process store is exact while there are few.
    pub unique_fingerprints: u64,
    /// The mean over the visits that told a bot probability, rounded down.
    pub mean_bot_probability: Option<BotProbability>,
}

impl IpSignal {
    /// How long an address is remembered after its latest visit.
    pub const RETENTION: Retention = Retention::HOUR;

    /// Puts a signal together.
    #[must_use]
    pub const fn new(
        seen: (Timestamp, Timestamp),
        total_sessions: u64,
        unique_fingerprints: u64,
        mean_bot_probability: Option<BotProbability>,
    ) -> Self {
        Self {
            first_seen: seen.0,
            last_seen: seen.1,
            total_sessions,
            unique_fingerprints,
            mean_bot_probability,
        }
    }

    /// Returns how long the address has been seen.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.last_seen.since(self.first_seen)
    }
}
