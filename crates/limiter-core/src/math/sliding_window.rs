//! The sliding window: at most `limit` units in every interval of one window.

use super::WindowLog;
use crate::limit::WindowRule;
use crate::{Cost, Timestamp};

impl WindowRule {
    pub(crate) fn admits(&self, log: Option<&WindowLog>, now: Timestamp, cost: Cost) -> bool {
        let there = log.map_or(0, |log| log.units(self.window_us(), now));
        there + u64::from(cost.get()) <= u64::from(self.limit())
    }

    /// Returns the first moment, not before `now`, at which `cost` fits if nobody spends.
    pub(crate) fn admits_at_us(&self, log: Option<&WindowLog>, now: Timestamp, cost: Cost) -> u64 {
        let most = u64::from(self.limit().saturating_sub(cost.get()));
        log.map_or(now.as_micros(), |log| {
            log.falls_to_us(self.window_us(), most, now)
        })
    }

    /// Returns the units that still fit.
    pub(crate) fn remaining(&self, log: Option<&WindowLog>, now: Timestamp) -> u32 {
        let there = log.map_or(0, |log| log.units(self.window_us(), now));
        self.limit()
            .saturating_sub(u32::try_from(there).unwrap_or(u32::MAX))
    }
}
