//! Sliding and suppressing windows as a list of everything that was spent.

use limiter_core::{SuppressingRule, WindowRule};

/// Everything that was spent, in the order in which it came.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    spent: Vec<Spent>,
    changed_at: u128,
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
        let newest = self.spent.last().filter(|newest| newest.leaves_at > now);
        let joins = newest
            .map(|newest| newest.sub_bucket)
            .filter(|began| now - began < u128::from(rule.granularity_us()));
        let sub_bucket = joins.unwrap_or(now);
        if joins.is_none() {
            self.make_room(now);
        }
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

    /// There are 256 sub-buckets beside a new one at most. Else the units that leave first leave with those of the next.
    fn make_room(&mut self, now: u128) {
        let there = self.spent.iter().filter(|spent| spent.leaves_at > now);
        let mut sub_buckets: Vec<_> = there.map(|spent| spent.sub_bucket).collect();
        sub_buckets.dedup();
        if let [first, second, rest @ ..] = sub_buckets.as_slice()
            && rest.len() >= 255
        {
            let leaves_at = |sub_bucket| {
                let mut spent = self.spent.iter();
                spent.find(|spent| spent.sub_bucket == sub_bucket)
            };
            let later = leaves_at(*second).map_or(now, |spent| spent.leaves_at);
            for spent in &mut self.spent {
                if spent.sub_bucket == *first {
                    (spent.sub_bucket, spent.leaves_at) = (*second, later);
                }
            }
        }
    }

    /// The units that leave first are given back, so that what is left leaves no sooner than what was truly spent.
    pub(super) fn after_refund(mut self, now: u128, cost: u128) -> Option<Self> {
        self.changed_at = now.max(self.changed_at);
        let mut rest = cost;
        for spent in &mut self.spent {
            if spent.leaves_at > self.changed_at {
                let given = spent.units.min(rest);
                spent.units -= given;
                rest -= given;
            }
        }
        self.spent.retain(|spent| spent.units > 0);
        (self.units(now) > 0).then_some(self)
    }

    fn units_leaving_after(&self, moment: u128) -> u128 {
        let later = self.spent.iter().filter(|spent| spent.leaves_at > moment);
        later.map(|spent| spent.units).sum()
    }
}
