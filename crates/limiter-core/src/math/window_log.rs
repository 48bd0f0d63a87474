//! What sliding and suppressing windows remember: sub-buckets of units, and when each leaves.

use super::ChargePart;
use crate::limit::WindowRule;
use crate::{Cost, Timestamp};

/// A log of sub-buckets, the one that leaves first in front.
///
/// Each unit leaves when it was told to as it was spent. Should the plan get another window, units that are there keep
/// their moment, but with the next spend none stays longer than one new window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowLog {
    seen: Timestamp,
    newest_began: Timestamp,
    sub_buckets: Vec<SubBucket>,
}

/// Units that leave together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubBucket {
    /// The microsecond since the epoch at which the units leave: one window after the last of them was spent.
    pub leaves_at_us: u64,
    /// How many units there are.
    pub units: u32,
}

impl WindowLog {
    /// Puts a log together again from what a store kept.
    ///
    /// `None` if it is none that the math makes: a store that reads it holds a corrupt value.
    #[must_use]
    pub fn from_parts(
        seen: Timestamp,
        newest_began: Timestamp,
        sub_buckets: Vec<SubBucket>,
    ) -> Option<Self> {
        let in_order = sub_buckets.is_sorted_by_key(|sub| sub.leaves_at_us);
        let sound = in_order
            && newest_began <= seen
            && sub_buckets.iter().all(|sub| sub.leaves_at_us < 1 << 53);
        sound.then_some(Self {
            seen,
            newest_began,
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

    /// Returns the sub-buckets, the one that leaves first in front.
    #[must_use]
    pub fn sub_buckets(&self) -> &[SubBucket] {
        &self.sub_buckets
    }

    /// Returns the moment at which the last unit leaves: from then on the log means nothing.
    pub(crate) fn expires_at_us(&self) -> u64 {
        self.sub_buckets.last().map_or(0, |sub| sub.leaves_at_us)
    }

    /// Returns the units that are there at `now`.
    pub(crate) fn units(&self, now: Timestamp) -> u64 {
        let live = self.live(now.max(self.seen).as_micros());
        live.map(|sub| u64::from(sub.units)).sum()
    }

    /// Returns the sub-buckets that leave after `moment_us`.
    pub(super) fn live(&self, moment_us: u64) -> impl Iterator<Item = &SubBucket> {
        let left = self
            .sub_buckets
            .partition_point(|sub| sub.leaves_at_us <= moment_us);
        self.sub_buckets.iter().skip(left)
    }

    /// Returns the first moment, not before `now`, at which at most `most` units are left.
    pub(crate) fn falls_to_us(&self, most: u64, now: Timestamp) -> u64 {
        let mut units = self.units(now);
        if units <= most {
            return now.as_micros();
        }
        let live_from = self.seen.max(now).as_micros();
        for sub in self
            .sub_buckets
            .iter()
            .filter(|sub| sub.leaves_at_us > live_from)
        {
            units -= u64::from(sub.units);
            if units <= most {
                return sub.leaves_at_us;
            }
        }
        self.expires_at_us()
    }

    /// Returns the log (a new one for `None`) after `cost` came at `now`.
    pub(crate) fn add(log: Option<Self>, rule: &WindowRule, now: Timestamp, cost: Cost) -> Self {
        let mut log = log.unwrap_or(Self {
            seen: now,
            newest_began: now,
            sub_buckets: Vec::new(),
        });
        log.seen = log.seen.max(now);
        let leaves_at_us = log.seen.as_micros() + rule.window_us();
        log.drop_left();
        for sub in log
            .sub_buckets
            .iter_mut()
            .rev()
            .take_while(|sub| sub.leaves_at_us > leaves_at_us)
        {
            sub.leaves_at_us = leaves_at_us;
        }
        let age_us = log.seen.as_micros() - log.newest_began.as_micros();
        let joins = age_us < rule.granularity_us();
        if let Some(newest) = log.sub_buckets.last_mut().filter(|_| joins) {
            newest.units = newest.units.saturating_add(cost.get());
            newest.leaves_at_us = leaves_at_us;
        } else {
            log.newest_began = log.seen;
            log.sub_buckets.push(SubBucket {
                leaves_at_us,
                units: cost.get(),
            });
        }
        log
    }

    /// Returns the log after `part` was given back, or `None` if nothing is left in it.
    ///
    /// The units are taken out of the sub-bucket that they are in, so that all others leave as they would have. Once a whole
    /// window has passed since the charge, they have left, or are held back for less than a granularity: nothing is given back.
    pub(super) fn refund(
        mut self,
        rule: &WindowRule,
        now: Timestamp,
        part: ChargePart,
    ) -> Option<Self> {
        let leaves_from_us = part.charged_at.as_micros() + rule.window_us();
        if leaves_from_us <= now.max(self.seen).as_micros() {
            return Some(self);
        }
        let mut sub_buckets = self.sub_buckets.iter();
        let Some(nth) = sub_buckets.position(|sub| sub.leaves_at_us >= leaves_from_us) else {
            return Some(self);
        };
        self.take(nth, part.units, rule);
        self.seen = self.seen.max(now);
        self.drop_left();
        (!self.sub_buckets.is_empty()).then_some(self)
    }

    /// Takes units out of a sub-bucket.
    ///
    /// When the newest one is emptied, the one before it is the newest. When that began is not known any more: it is taken to
    /// have been as early as can be, so that what comes next does not share it, and holds none of its units back.
    fn take(&mut self, nth: usize, units: u32, rule: &WindowRule) {
        let Some(sub) = self.sub_buckets.get_mut(nth) else {
            return;
        };
        sub.units = sub.units.saturating_sub(units);
        if sub.units > 0 {
            return;
        }
        self.sub_buckets.remove(nth);
        if let Some(newest) = self
            .sub_buckets
            .last()
            .filter(|_| nth == self.sub_buckets.len())
        {
            let after_its_last_us = (newest.leaves_at_us + 1).saturating_sub(rule.window_us());
            let began_us = after_its_last_us.min(self.newest_began.as_micros());
            let began_us = began_us.saturating_sub(rule.granularity_us());
            self.newest_began = Timestamp::from_micros(began_us).unwrap_or(self.newest_began);
        }
    }

    fn drop_left(&mut self) {
        let now_us = self.seen.as_micros();
        let left = self
            .sub_buckets
            .iter()
            .take_while(|sub| sub.leaves_at_us <= now_us)
            .count();
        self.sub_buckets.drain(..left);
    }
}
