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
        let held = log.map_or(0, |log| log.units(self.soft().window_us(), now)) + cost;
        let soft = u64::from(self.soft().limit());
        let Some(log) = log.filter(|_| held > soft) else {
            return Suppression::NONE;
        };
        if held >= u64::from(self.hard()) {
            return Suppression::ALL;
        }
        let observed = held - self.left_of_oldest(log, now, held, cost);
        let mut passing = (soft * ALL_MILLIONTHS / observed).min(ALL_MILLIONTHS - 1);
        if self.soft().window_us() > SECOND_US
            && let Some(last_second) = self.last_second(log, now, cost)
        {
            passing = passing.min(self.passing_at(&last_second));
        }
        Suppression::refusing_all_but(passing)
    }

    /// Returns how many units of the oldest sub-bucket came more than a window ago, of `held` in all.
    ///
    /// Those that did not are as many as came in that time at the rate of all after them, the last of them an increment as
    /// large as this one; but not fewer than if they came evenly within one granularity.
    fn left_of_oldest(&self, log: &WindowLog, now: Timestamp, held: u64, cost: u64) -> u64 {
        let window_us = self.soft().window_us();
        let Some(oldest) = log.in_window(window_us, now).first() else {
            return 0;
        };
        let (units, granularity_us) = (u64::from(oldest.units), self.soft().granularity_us());
        let age_us = now.max(log.seen()).as_micros() - oldest.came_at_us;
        let stays_us = window_us - age_us;
        if stays_us >= granularity_us {
            return 0;
        }
        let at_their_rate = mul_div(held - units, stays_us - 1, age_us).saturating_add(cost);
        let there = at_their_rate.max(mul_div(units, stays_us, granularity_us));
        units.saturating_sub(there)
    }

    /// Returns what came in the sub-buckets whose last unit is less than a second old, with this request, and the time that
    /// it really took: never less than a second. `None` if there are none: one request makes no rate.
    ///
    /// If something came shortly before them, they cover the time since. Else they cover the time since they began.
    fn last_second(&self, log: &WindowLog, now: Timestamp, cost: u64) -> Option<Observed> {
        let (window_us, granularity_us) = (self.soft().window_us(), self.soft().granularity_us());
        let now_us = now.max(log.seen()).as_micros();
        let there = log.in_window(window_us, now);
        let before = there.partition_point(|sub| sub.came_at_us + SECOND_US <= now_us);
        let (before, recent) = there.split_at_checked(before)?;
        let first_us = recent.first()?.came_at_us;
        let previous_us = before.last().map(|sub| sub.came_at_us);
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

/// Returns `a * b / c`, rounded down.
fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    let product = u128::from(a) * u128::from(b) / u128::from(c.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}
