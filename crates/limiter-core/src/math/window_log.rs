//! What sliding and suppressing windows remember: sub-buckets of units, and when they came.

use crate::limit::{MAX_SUB_BUCKETS, WindowRule};
use crate::{Cost, Timestamp};

/// A log of sub-buckets, the oldest in front.
///
/// Units leave a window after they came, whatever the window was then. They are kept for the longest window of all plans
/// that have added to the log, so that two releases with different plans see what the other one admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowLog {
    seen: Timestamp,
    newest_began: Timestamp,
    kept_us: u64,
    sub_buckets: Vec<SubBucket>,
}

/// Units that leave together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubBucket {
    /// The microsecond since the epoch at which the last of the units came. They all leave one window after it.
    pub came_at_us: u64,
    /// How many units there are.
    pub units: u32,
}

/// Sub-buckets that have left the window of the plan that adds are joined, so that at most so many stay for longer windows.
const JOINED_PER_LOG: u64 = 32;

impl WindowLog {
    /// Puts a log together again from what a store kept.
    ///
    /// `None` if it is none that the math makes: a store that reads it holds a corrupt value.
    #[must_use]
    pub fn from_parts(
        seen: Timestamp,
        newest_began: Timestamp,
        kept_us: u64,
        sub_buckets: Vec<SubBucket>,
    ) -> Option<Self> {
        let in_order = sub_buckets.is_sorted_by_key(|sub| sub.came_at_us);
        let newest_us = sub_buckets.last().map_or(0, |sub| sub.came_at_us);
        let sound = in_order
            && newest_began <= seen
            && newest_us <= seen.as_micros()
            && (1..1 << 46).contains(&kept_us);
        sound.then_some(Self {
            seen,
            newest_began,
            kept_us,
            sub_buckets,
        })
    }

    /// Returns when the log was last added to.
    #[must_use]
    pub const fn seen(&self) -> Timestamp {
        self.seen
    }

    /// Returns when the newest sub-bucket got its first units.
    #[must_use]
    pub const fn newest_began(&self) -> Timestamp {
        self.newest_began
    }

    /// Returns for how many microseconds units are kept: the longest window of the plans that added to the log.
    #[must_use]
    pub const fn kept_us(&self) -> u64 {
        self.kept_us
    }

    /// Returns the sub-buckets, the oldest in front.
    #[must_use]
    pub fn sub_buckets(&self) -> &[SubBucket] {
        &self.sub_buckets
    }

    /// Returns the moment from which on the log means nothing.
    pub(crate) fn expires_at_us(&self) -> u64 {
        self.empty_from_us(self.kept_us)
    }

    /// Returns the moment at which the last unit leaves a window.
    pub(crate) fn empty_from_us(&self, window_us: u64) -> u64 {
        let newest = self.sub_buckets.last();
        newest.map_or(0, |sub| sub.came_at_us + window_us.min(self.kept_us))
    }

    /// Returns the sub-buckets in a window that ends at `now`; none if the log has run out.
    pub(super) fn in_window(&self, window_us: u64, now: Timestamp) -> &[SubBucket] {
        let now_us = now.max(self.seen).as_micros();
        let there = if self.expires_at_us() > now.as_micros() {
            let left = |sub: &SubBucket| sub.came_at_us + window_us <= now_us;
            self.sub_buckets
                .get(self.sub_buckets.partition_point(left)..)
        } else {
            None
        };
        there.unwrap_or_default()
    }

    /// Returns the units in a window that ends at `now`.
    pub(crate) fn units(&self, window_us: u64, now: Timestamp) -> u64 {
        let there = self.in_window(window_us, now).iter();
        there.map(|sub| u64::from(sub.units)).sum()
    }

    /// Returns the first moment, not before `now`, at which at most `most` units are left in a window.
    pub(crate) fn falls_to_us(&self, window_us: u64, most: u64, now: Timestamp) -> u64 {
        let mut units = self.units(window_us, now);
        if units <= most {
            return now.as_micros();
        }
        let empty_from_us = self.empty_from_us(window_us);
        for sub in self.in_window(window_us, now) {
            units -= u64::from(sub.units);
            if units <= most {
                return empty_from_us.min(sub.came_at_us + window_us);
            }
        }
        empty_from_us
    }

    /// Returns the log (a new one for `None`) after `cost` came at `now`.
    pub(crate) fn add(log: Option<Self>, rule: &WindowRule, now: Timestamp, cost: Cost) -> Self {
        let in_force = log.filter(|log| log.expires_at_us() > now.as_micros());
        let mut log = in_force.unwrap_or(Self {
            seen: now,
            newest_began: now,
            kept_us: rule.window_us(),
            sub_buckets: Vec::new(),
        });
        log.seen = log.seen.max(now);
        log.kept_us = log.kept_us.max(rule.window_us());
        log.drop_outlived();
        log.join_left(rule.window_us());
        log.push(rule, cost.get());
        log
    }

    /// Returns the log after `cost` was given back, or `None` if nothing is left in it.
    ///
    /// The units that would leave first are given back: what is left then leaves no sooner than what was truly spent.
    pub(crate) fn refund(mut self, now: Timestamp, cost: Cost) -> Option<Self> {
        self.seen = self.seen.max(now);
        self.drop_outlived();
        let mut rest = cost.get();
        for sub in &mut self.sub_buckets {
            let given = sub.units.min(rest);
            sub.units -= given;
            rest -= given;
        }
        self.sub_buckets.retain(|sub| sub.units > 0);
        (!self.sub_buckets.is_empty()).then_some(self)
    }

    /// Puts units into the newest sub-bucket, or into one of their own.
    fn push(&mut self, rule: &WindowRule, units: u32) {
        let now_us = self.seen.as_micros();
        let joins = now_us - self.newest_began.as_micros() < rule.granularity_us();
        let newest = self.sub_buckets.last_mut();
        let newest = newest.filter(|newest| joins && newest.came_at_us + rule.window_us() > now_us);
        if let Some(newest) = newest {
            newest.units = newest.units.saturating_add(units);
            newest.came_at_us = now_us;
        } else {
            self.make_room();
            self.newest_began = self.seen;
            self.sub_buckets.push(SubBucket {
                came_at_us: now_us,
                units,
            });
        }
    }

    /// Makes room for one more sub-bucket. Where a changed plan has left too many, the two that leave first become one, which
    /// leaves with the second.
    fn make_room(&mut self) {
        if self.sub_buckets.len() > usize::from(MAX_SUB_BUCKETS) {
            let first = self.sub_buckets.remove(0);
            if let Some(second) = self.sub_buckets.first_mut() {
                second.units = second.units.saturating_add(first.units);
            }
        }
    }

    fn drop_outlived(&mut self) {
        let now_us = self.seen.as_micros();
        let outlived = |sub: &SubBucket| sub.came_at_us + self.kept_us <= now_us;
        let outlived = self.sub_buckets.partition_point(outlived);
        self.sub_buckets.drain(..outlived);
    }

    /// Joins sub-buckets that have left a window and came in the same part of the time that units are kept for.
    fn join_left(&mut self, window_us: u64) {
        let (now_us, part_us) = (self.seen.as_micros(), self.kept_us / JOINED_PER_LOG + 1);
        self.sub_buckets.dedup_by(|next, joined| {
            let joins = next.came_at_us + window_us <= now_us
                && next.came_at_us / part_us == joined.came_at_us / part_us;
            if joins {
                joined.came_at_us = next.came_at_us;
                joined.units = joined.units.saturating_add(next.units);
            }
            joins
        });
    }
}
