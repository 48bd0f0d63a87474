//! Sliding and suppressing windows as a list of everything that was spent.

use limiter_core::{SuppressingRule, WindowRule};

use super::kept::Part;

/// Everything that was spent, in the order in which it came.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    spent: Vec<Spent>,
    changed_at: u128,
    /// When the newest sub-bucket began, or at the earliest may have begun.
    newest_began: u128,
}

/// Units that came together.
#[derive(Clone, Copy, Debug)]
struct Spent {
    units: u128,
    /// When the sub-bucket that they are in got its first units: no two of them began together.
    sub_bucket: u128,
    leaves_at: u128,
}

/// Units that share a sub-bucket, of which only the last moment is known.
#[derive(Clone, Copy, Debug)]
struct Group {
    sub_bucket: u128,
    came: u128,
    units: u128,
}

/// An observed rate: so many units in so many microseconds.
#[derive(Clone, Copy, Debug)]
struct Pace {
    units: u128,
    span: u128,
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
        let held = self.units(now) + cost;
        if held <= soft {
            return 0;
        }
        if held >= u128::from(rule.hard()) {
            return 1_000_000;
        }
        let now = now.max(self.changed_at);
        let granularity = u128::from(rule.soft().granularity_us());
        let groups = self.groups(now, window);
        let mut rates = vec![Pace {
            units: units_within(&groups, window, now, granularity, cost) + cost,
            span: window,
        }];
        if window > SECOND {
            rates.extend(last_second(
                &groups,
                self.newest_began,
                now,
                granularity,
                cost,
            ));
        }
        let passing = |pace: Pace| 1_000_000 * soft * pace.span.min(window) / window / pace.units;
        let passing = rates.into_iter().map(passing).min().unwrap_or(0);
        // Above the soft limit nothing is certain, however many of the units held have really left.
        1_000_000 - u32::try_from(passing).unwrap_or(999_999).min(999_999)
    }

    /// Returns the sub-buckets that have not left, the oldest first.
    fn groups(&self, now: u128, window: u128) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for spent in self.spent.iter().filter(|spent| spent.leaves_at > now) {
            match groups.last_mut() {
                Some(group) if group.sub_bucket == spent.sub_bucket => group.units += spent.units,
                _ => groups.push(Group {
                    sub_bucket: spent.sub_bucket,
                    came: spent.leaves_at.saturating_sub(window),
                    units: spent.units,
                }),
            }
        }
        groups
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
        let is_young = now - self.newest_began < u128::from(rule.granularity_us());
        let joins = newest.map(|newest| newest.sub_bucket).filter(|_| is_young);
        let sub_bucket = joins.unwrap_or(now);
        if joins.is_none() {
            self.newest_began = now;
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

    /// Units are taken out of the sub-bucket that they are in, unless a whole window has passed since they came.
    ///
    /// That is the first sub-bucket to get units when they came, or later. If it was the newest and nothing is left in it, the
    /// one before is the newest again, and is taken to have begun as long as can be before its last units.
    pub(super) fn after_refund(mut self, rule: &WindowRule, now: u128, part: Part) -> Option<Self> {
        let window = u128::from(rule.window_us());
        let now = now.max(self.changed_at);
        if now >= part.charged_at + window {
            return Some(self);
        }
        let came_since = |spent: &&Spent| spent.leaves_at >= part.charged_at + window;
        let Some(found) = self.spent.iter().find(came_since).copied() else {
            return Some(self);
        };
        let is_in_it = |spent: &Spent| spent.sub_bucket == found.sub_bucket;
        let was_newest = self.spent.last().is_some_and(is_in_it);
        let mut rest = part.units;
        for spent in self.spent.iter_mut().filter(|spent| is_in_it(spent)) {
            let given = spent.units.min(rest);
            spent.units -= given;
            rest -= given;
        }
        let mut in_it = self.spent.iter().filter(|spent| is_in_it(spent));
        if in_it.all(|spent| spent.units == 0) {
            self.spent.retain(|spent| !is_in_it(spent));
            if let Some(newest) = self.spent.last().filter(|_| was_newest) {
                let granularity = u128::from(rule.granularity_us());
                let then_came_others = (newest.leaves_at + 1).saturating_sub(window);
                let then_came_others = then_came_others.min(self.newest_began);
                self.newest_began = then_came_others.saturating_sub(granularity);
            }
        }
        self.changed_at = now;
        (self.units(now) > 0).then_some(self)
    }

    fn units_leaving_after(&self, moment: u128) -> u128 {
        let later = self.spent.iter().filter(|spent| spent.leaves_at > moment);
        later.map(|spent| spent.units).sum()
    }
}

/// Returns the units that came within the last `window`. Those of the oldest sub-bucket are taken to have come evenly within
/// one granularity, the last of them with as much at once as is asked for now.
fn units_within(groups: &[Group], window: u128, now: u128, granularity: u128, cost: u128) -> u128 {
    let whole: u128 = groups.iter().skip(1).map(|group| group.units).sum();
    let Some(oldest) = groups.first() else {
        return 0;
    };
    let part = (oldest.came + window).saturating_sub(now);
    if part >= granularity {
        return whole + oldest.units;
    }
    whole + oldest.units.min(oldest.units * part / granularity + cost)
}

/// Returns the rate of the sub-buckets that are in use within the last second, over the time that they cover: since what
/// came right before them, or since they began.
fn last_second(
    groups: &[Group],
    newest_began: u128,
    now: u128,
    granularity: u128,
    cost: u128,
) -> Option<Pace> {
    let (recent, before): (Vec<&Group>, Vec<&Group>) =
        groups.iter().partition(|group| now < group.came + SECOND);
    let oldest = recent.first()?;
    let right_before = before
        .last()
        .filter(|previous| oldest.came - previous.came < granularity + SECOND);
    let since = match (right_before, recent.as_slice()) {
        (Some(previous), _) => previous.came,
        (None, [_]) => newest_began,
        (None, _) => oldest.came.saturating_sub(granularity),
    };
    let units: u128 = recent.iter().map(|group| group.units).sum();
    Some(Pace {
        units: units + cost,
        span: now.saturating_sub(since).max(SECOND),
    })
}
