//! The suppressing window: between its soft and its hard limit, the more is asked for, the less is admitted.

use super::{Draw, Suppression, WindowLog};
use crate::limit::SuppressingRule;
use crate::{Cost, Timestamp};

const SECOND_US: u64 = 1_000_000;
const ALL_MILLIONTHS: u64 = 1_000_000;

impl SuppressingRule {
    /// Returns whether `draw` lets a request of `cost` pass, and the share of requests that is being refused.
    pub(crate) fn admits(
        &self,
        log: Option<&WindowLog>,
        now: Timestamp,
        cost: Cost,
        draw: Draw,
    ) -> (bool, Suppression) {
        let suppression = self.suppression(log, now, cost);
        (suppression.lets_pass(draw), suppression)
    }

    /// Returns the share of requests refused at what is observed once a request of `cost` has come.
    fn suppression(&self, log: Option<&WindowLog>, now: Timestamp, cost: Cost) -> Suppression {
        let cost = u64::from(cost.get());
        let observed = log.map_or(0, |log| log.units(now)) + cost;
        let soft = u64::from(self.soft().limit());
        if observed <= soft {
            return Suppression::NONE;
        }
        if observed >= u64::from(self.hard()) {
            return Suppression::ALL;
        }
        let mut passing = soft * ALL_MILLIONTHS / observed;
        if self.soft().window_us() > SECOND_US {
            let last_second = log.map_or(0, |log| self.last_second(log, now)) + cost;
            passing = passing.min(self.soft_per_second_millionths() / last_second);
        }
        Suppression::refusing_all_but(passing)
    }

    /// Returns what was observed within the last second: sub-buckets whose last unit came in it.
    fn last_second(&self, log: &WindowLog, now: Timestamp) -> u64 {
        let now_us = now.max(log.seen()).as_micros();
        log.units_beyond(now_us + self.soft().window_us() - SECOND_US)
    }

    /// Returns the first moment, not before `now`, at which `cost` is certain to pass if nobody asks.
    pub(crate) fn admits_at_us(&self, log: Option<&WindowLog>, now: Timestamp, cost: Cost) -> u64 {
        self.soft().admits_at_us(log, now, cost)
    }
}
