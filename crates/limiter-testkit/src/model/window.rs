//! Sliding and suppressing windows as a list of everything that was spent.

use limiter_core::{SuppressingRule, WindowRule};

use super::kept::Part;

/// Everything that was spent, in the order in which it came.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    spent: Vec<Spent>,
    changed_at: u128,
    /// The newest sub-bucket was given back whole: what comes next shares none with older units.
    is_closed: bool,
}

/// Units that came together.
#[derive(Clone, Copy, Debug)]
struct Spent {
    units: u128,
    /// When the sub-bucket that they are in got its first units.
    sub_bucket: u128,
    leaves_at: u128,
}

const SECOND: u128 = 1_000_000;

impl Window {
    pub(super) const fn changed_at(&self) -> u128 {
        self.changed_at
    }

    /// Returns the units that have not left.
    pub(super) fn units(&self, now: u128) -> u128 {
        self.units_leaving_after(now.max(self.changed_at))
    }

    /// Returns the first microsecond from `now` on at which at most `most` units have not left.
    pub(super) fn holds_at_most_from(&self, most: u128, now: u128) -> u128 {
        let leavings = self.spent.iter().map(|spent| spent.leaves_at);
        std::iter::once(now)
            .chain(leavings.filter(|&moment| moment > now))
            .filter(|&moment| self.units(moment) <= most)
            .min()
            .unwrap_or(now)
    }

    /// Returns the microsecond at which the last unit leaves.
    pub(super) fn empty_from(&self) -> u128 {
        let leavings = self.spent.iter().map(|spent| spent.leaves_at);
        leavings.max().unwrap_or(0)
    }

    /// Returns the share of requests of `cost` that is refused, rounded up to millionths.
    ///
    /// The rate is what is observed with this request in it: the higher of the window's average and the last second.
    pub(super) fn refused_millionths(&self, rule: &SuppressingRule, now: u128, cost: u128) -> u32 {
        let (soft, window) = (
            u128::from(rule.soft().limit()),
            u128::from(rule.soft().window_us()),
        );
        let observed = self.units(now) + cost;
        if observed <= soft {
            return 0;
        }
        if observed >= u128::from(rule.hard()) {
            return 1_000_000;
        }
        let passing_of_window = 1_000_000 * soft / observed;
        let passing = if window > SECOND {
            let last_second_began = now.max(self.changed_at) + window - SECOND;
            let last_second = self.units_leaving_after(last_second_began) + cost;
            let passing_of_second = 1_000_000 * soft * SECOND / (window * last_second);
            passing_of_window.min(passing_of_second)
        } else {
            passing_of_window
        };
        1_000_000 - u32::try_from(passing).unwrap_or(1_000_000)
    }

    /// Units share a sub-bucket with the newest ones if they come less than a granularity after its first ones. The whole
    /// sub-bucket then leaves one window from now. No unit stays for longer than that, though the window was longer once.
    pub(super) fn after_spend(mut self, rule: &WindowRule, now: u128, cost: u128) -> Self {
        let now = now.max(self.changed_at);
        let leaves_at = now + u128::from(rule.window_us());
        for spent in &mut self.spent {
            spent.leaves_at = spent.leaves_at.min(leaves_at);
        }
        let newest = self
            .spent
            .last()
            .filter(|newest| newest.leaves_at > now && !self.is_closed);
        self.is_closed = false;
        let joins = newest
            .map(|newest| newest.sub_bucket)
            .filter(|began| now - began < u128::from(rule.granularity_us()));
        let sub_bucket = joins.unwrap_or(now);
        self.spent.push(Spent {
            units: cost,
            sub_bucket,
            leaves_at,
        });
        for spent in &mut self.spent {
            if spent.sub_bucket == sub_bucket && spent.leaves_at > now {
                spent.leaves_at = leaves_at;
            }
        }
        self.changed_at = now;
        self
    }

    /// Units are taken out of the sub-bucket that they are in, unless a whole window has passed since they came.
    ///
    /// That is the first sub-bucket to get units when they came, or later.
    pub(super) fn after_refund(mut self, window: u128, now: u128, part: Part) -> Option<Self> {
        let now = now.max(self.changed_at);
        if now >= part.charged_at + window {
            return Some(self);
        }
        let came_since = |spent: &&Spent| spent.leaves_at >= part.charged_at + window;
        let Some(found) = self.spent.iter().find(came_since).copied() else {
            return Some(self);
        };
        let is_in_it = |spent: &Spent| spent.sub_bucket == found.sub_bucket;
        let mut rest = part.units;
        for spent in self.spent.iter_mut().filter(|spent| is_in_it(spent)) {
            let given = spent.units.min(rest);
            spent.units -= given;
            rest -= given;
        }
        let is_newest = self.spent.last().is_some_and(is_in_it);
        let is_empty = self
            .spent
            .iter()
            .filter(|spent| is_in_it(spent))
            .all(|spent| spent.units == 0);
        if is_empty {
            self.spent.retain(|spent| !is_in_it(spent));
            self.is_closed |= is_newest;
        }
        self.changed_at = now;
        (self.units(now) > 0).then_some(self)
    }

    fn units_leaving_after(&self, moment: u128) -> u128 {
        let later = self.spent.iter().filter(|spent| spent.leaves_at > moment);
        later.map(|spent| spent.units).sum()
    }
}
