//! [`IpSignal`]: what is known of an address.

use std::time::Duration;

use limiter_core::Timestamp;

use crate::{BotProbability, Retention};

/// What is known of an address, since it was last quiet for an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IpSignal {
    /// When the first request came.
    pub first_seen: Timestamp,
    /// When the latest request came.
    pub last_seen: Timestamp,
    /// How many sessions began.
    pub total_sessions: u64,
    /// How many fingerprints were seen: exact while there are few, then a `HyperLogLog`'s estimate, a few per cent off at most.
    pub unique_fingerprints: u64,
    /// The mean over the requests that told a bot probability, rounded down.
    pub mean_bot_probability: Option<BotProbability>,
}

impl IpSignal {
    /// How long an address is remembered after its latest request.
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
