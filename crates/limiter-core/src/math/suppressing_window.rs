//! The suppressing window: between its soft and its hard limit, the more is asked for, the less is admitted.

use super::{Draw, Suppression, WindowLog};
use crate::limit::SuppressingRule;
use crate::{Cost, Timestamp};

const SECOND_US: u64 = 1_000_000;
const ALL_MILLIONTHS: u64 = 1_000_000;

/// Units, and the microseconds in which they came.
struct Observed {
    units: u64,
    span_us: u64,
}

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
    ///
    /// Both limits count every unit that a sub-bucket still holds, so that no more than the hard limit ever passes. The
    /// rate between them does not: what a sub-bucket holds back would make it too high. Above the soft limit no request is
    /// certain, so at least a millionth is refused.
    fn suppression(&self, log: Option<&WindowLog>, now: Timestamp, cost: Cost) -> Suppression {
        let cost = u64::from(cost.get());
        let held = log.map_or(0, |log| log.units(now)) + cost;
        let soft = u64::from(self.soft().limit());
        let Some(log) = log.filter(|_| held > soft) else {
            return Suppression::NONE;
        };
        if held >= u64::from(self.hard()) {
            return Suppression::ALL;
        }
        let observed = held - self.left_of_oldest(log, now, cost);
        let mut passing = (soft * ALL_MILLIONTHS / observed).min(ALL_MILLIONTHS - 1);
        if self.soft().window_us() > SECOND_US
            && let Some(last_second) = self.last_second(log, now, cost)
        {
            passing = passing.min(self.passing_at(&last_second));
        }
        Suppression::refusing_all_but(passing)
    }

    /// Returns how many units of the oldest sub-bucket came more than a window ago, if they came evenly within one
    /// granularity and the last increment was as large as this one.
    fn left_of_oldest(&self, log: &WindowLog, now: Timestamp, cost: u64) -> u64 {
        let now_us = now.max(log.seen()).as_micros();
        let Some(oldest) = log.live(now_us).next() else {
            return 0;
        };
        let (units, stays_us) = (u64::from(oldest.units), oldest.leaves_at_us - now_us);
        let granularity_us = self.soft().granularity_us();
        if stays_us >= granularity_us {
            return 0;
        }
        let there = mul_div(units, stays_us, granularity_us) + cost;
        units.saturating_sub(there)
    }

    /// Returns what came in the sub-buckets whose last unit is less than a second old, with this request, and the time that
    /// it really took: never less than a second. `None` if there are none: one request makes no rate.
    ///
    /// If something came shortly before them, they cover the time since. Else they cover the time since they began.
    fn last_second(&self, log: &WindowLog, now: Timestamp, cost: u64) -> Option<Observed> {
        let (window_us, granularity_us) = (self.soft().window_us(), self.soft().granularity_us());
        let now_us = now.max(log.seen()).as_micros();
        let came_us = |leaves_at_us: u64| leaves_at_us.saturating_sub(window_us);
        let live: Vec<_> = log.live(now_us).collect();
        let is_recent = |came_us: u64| came_us + SECOND_US > now_us;
        let before = live.partition_point(|sub| !is_recent(came_us(sub.leaves_at_us)));
        let (before, recent) = live.split_at_checked(before)?;
        let first_us = came_us(recent.first()?.leaves_at_us);
        let previous_us = before.last().map(|sub| came_us(sub.leaves_at_us));
        let since_us = match previous_us {
            Some(previous_us) if first_us < previous_us + granularity_us + SECOND_US => previous_us,
            _ if recent.len() == 1 => log.newest_began().as_micros(),
            _ => first_us.saturating_sub(granularity_us),
        };
        Some(Observed {
            units: recent.iter().map(|sub| u64::from(sub.units)).sum::<u64>() + cost,
            span_us: now_us.saturating_sub(since_us).clamp(SECOND_US, window_us),
        })
    }

    /// Returns the millionths of requests that pass at an observed rate.
    fn passing_at(&self, observed: &Observed) -> u64 {
        let soft = u64::from(self.soft().limit()) * ALL_MILLIONTHS;
        mul_div(soft, observed.span_us, self.soft().window_us()) / observed.units
    }

    /// Returns the first moment, not before `now`, at which `cost` is certain to pass if nobody asks.
    pub(crate) fn admits_at_us(&self, log: Option<&WindowLog>, now: Timestamp, cost: Cost) -> u64 {
        self.soft().admits_at_us(log, now, cost)
    }
}

/// Returns `a * b / c`, rounded down, for a `b` that is at most `c`.
fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    let product = u128::from(a) * u128::from(b) / u128::from(c.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}
