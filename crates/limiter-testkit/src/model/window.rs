//! Sliding and suppressing windows as a list of everything that was spent.

use std::collections::BTreeMap;

use limiter_core::{SuppressingRule, WindowRule};

/// Everything that was spent, in the order in which it came.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    spent: Vec<Spent>,
    changed_at: u128,
    /// The longest window of the plans that it was used under: for so long it is remembered what came.
    kept_for: u128,
}

/// Units that came together.
#[derive(Clone, Copy, Debug)]
struct Spent {
    units: u128,
    /// When the sub-bucket that they are in got its first units.
    sub_bucket: u128,
    /// When the last of the units came that share their sub-bucket.
    came: u128,
}

/// Units that share a sub-bucket, of which only the last moment is known, and of the newest the first.
#[derive(Clone, Copy, Debug)]
struct Group {
    began: u128,
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
/// What has left the window of the plan that adds is kept in so many parts of the time that it is remembered for.
const PARTS_OF_WHAT_LEFT: u128 = 32;

impl Window {
    /// Returns the units that have not left a window.
    pub(super) fn units(&self, window: u128, now: u128) -> u128 {
        if self.runs_out_at() <= now {
            return 0;
        }
        let now = now.max(self.changed_at);
        let there = self.spent.iter().filter(|spent| spent.came + window > now);
        there.map(|spent| spent.units).sum()
    }

    /// Returns the first microsecond from `now` on at which at most `most` units have not left a window.
    pub(super) fn holds_at_most_from(&self, window: u128, most: u128, now: u128) -> u128 {
        let leavings = self.spent.iter().map(|spent| spent.came + window);
        std::iter::once(now)
            .chain(
                leavings
                    .chain([self.runs_out_at()])
                    .filter(|&moment| moment > now),
            )
            .filter(|&moment| self.units(window, moment) <= most)
            .min()
            .unwrap_or(now)
    }

    /// Returns the microsecond at which the last unit leaves a window.
    pub(super) fn empty_from(&self, window: u128) -> u128 {
        let newest = self.spent.iter().map(|spent| spent.came).max();
        newest.map_or(0, |came| came + window.min(self.kept_for))
    }

    /// Returns the microsecond at which the last unit leaves the longest window of all plans that were used.
    pub(super) fn runs_out_at(&self) -> u128 {
        self.empty_from(self.kept_for)
    }

    /// Returns the share of requests of `cost` that is refused, rounded up to millionths.
    ///
    /// The rate is what is observed with this request in it: the higher of the window's average and the last second.
    pub(super) fn refused_millionths(&self, rule: &SuppressingRule, now: u128, cost: u128) -> u32 {
        let (soft, window) = (
            u128::from(rule.soft().limit()),
            u128::from(rule.soft().window_us()),
        );
        let held = self.units(window, now) + cost;
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
            units: units_within(&groups, window, now, granularity, cost),
            span: window,
        }];
        if window > SECOND {
            rates.extend(last_second(&groups, now, granularity, cost));
        }
        let passing = |pace: Pace| 1_000_000 * soft * pace.span.min(window) / window / pace.units;
        let passing = rates.into_iter().map(passing).min().unwrap_or(0);
        // Above the soft limit nothing is certain, however many of the units held have really left.
        1_000_000 - u32::try_from(passing).unwrap_or(999_999).min(999_999)
    }

    /// Returns the sub-buckets that have not left, the oldest first.
    fn groups(&self, now: u128, window: u128) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for spent in self.spent.iter().filter(|spent| spent.came + window > now) {
            match groups.last_mut() {
                Some(group) if group.began == spent.sub_bucket => group.units += spent.units,
                _ => groups.push(Group {
                    began: spent.sub_bucket,
                    came: spent.came,
                    units: spent.units,
                }),
            }
        }
        groups
    }

    /// Units share a sub-bucket with the newest ones if they come less than a granularity after its first ones. The whole
    /// sub-bucket then leaves one window after the last of them.
    pub(super) fn after_spend(mut self, rule: &WindowRule, now: u128, cost: u128) -> Self {
        let window = u128::from(rule.window_us());
        if self.runs_out_at() <= now {
            self = Self::default();
        }
        let now = now.max(self.changed_at);
        self.kept_for = self.kept_for.max(window);
        let kept_for = self.kept_for;
        self.spent.retain(|spent| spent.came + kept_for > now);
        self.join_what_left(window, now);
        let newest = self
            .spent
            .last()
            .filter(|newest| newest.came + window > now);
        let joins = newest
            .map(|newest| newest.sub_bucket)
            .filter(|began| now - began < u128::from(rule.granularity_us()));
        let sub_bucket = joins.unwrap_or(now);
        if joins.is_none() {
            self.make_room();
        }
        self.spent.push(Spent {
            units: cost,
            sub_bucket,
            came: now,
        });
        if joins.is_some() {
            for spent in &mut self.spent {
                if spent.sub_bucket == sub_bucket {
                    spent.came = now;
                }
            }
        }
        self.changed_at = now;
        self
    }

    /// What has left the window of the plan in use shares a sub-bucket with what came in the same part of the time that it
    /// is remembered for.
    fn join_what_left(&mut self, window: u128, now: u128) {
        let part = self.kept_for / PARTS_OF_WHAT_LEFT + 1;
        let mut latest = BTreeMap::new();
        for spent in self.spent.iter().filter(|spent| spent.came + window <= now) {
            latest.insert(spent.came / part, (spent.sub_bucket, spent.came));
        }
        for spent in self
            .spent
            .iter_mut()
            .filter(|spent| spent.came + window <= now)
        {
            if let Some(&(sub_bucket, came)) = latest.get(&(spent.came / part)) {
                (spent.sub_bucket, spent.came) = (sub_bucket, came);
            }
        }
    }

    /// There are 256 sub-buckets beside a new one at most. Else the units that leave first leave with those of the next.
    fn make_room(&mut self) {
        let mut sub_buckets: Vec<_> = self.spent.iter().map(|spent| spent.sub_bucket).collect();
        sub_buckets.dedup();
        if let [first, second, rest @ ..] = sub_buckets.as_slice()
            && rest.len() >= 255
        {
            let mut later = self
                .spent
                .iter()
                .filter(|spent| spent.sub_bucket == *second);
            let came = later.next().map_or(0, |spent| spent.came);
            for spent in &mut self.spent {
                if spent.sub_bucket == *first {
                    (spent.sub_bucket, spent.came) = (*second, came);
                }
            }
        }
    }

    /// The units that leave first are given back, so that what is left leaves no sooner than what was truly spent.
    pub(super) fn after_refund(mut self, now: u128, cost: u128) -> Option<Self> {
        self.changed_at = now.max(self.changed_at);
        let (now, kept_for) = (self.changed_at, self.kept_for);
        self.spent.retain(|spent| spent.came + kept_for > now);
        let mut rest = cost;
        for spent in &mut self.spent {
            let given = spent.units.min(rest);
            spent.units -= given;
            rest -= given;
        }
        self.spent.retain(|spent| spent.units > 0);
        (!self.spent.is_empty()).then_some(self)
    }
}

/// Returns the units that came within the last `window`, with what is asked for now.
///
/// Of the oldest sub-bucket only the last moment is known. So many of its units came within the window as come in that time at
/// the rate of what came since, the last of them with as much at once as is asked for now; at least so many as if they all
/// had come evenly within one granularity.
fn units_within(groups: &[Group], window: u128, now: u128, granularity: u128, cost: u128) -> u128 {
    let since: u128 = groups.iter().skip(1).map(|group| group.units).sum();
    let since = since + cost;
    let Some(oldest) = groups.first() else {
        return since;
    };
    let part = oldest.came + window - now;
    if part >= granularity {
        return since + oldest.units;
    }
    let at_the_same_rate = since * (part - 1) / (now - oldest.came) + cost;
    let evenly = oldest.units * part / granularity;
    since + oldest.units.min(at_the_same_rate.max(evenly))
}

/// Returns the rate of the sub-buckets that are in use within the last second, over the time that they cover: since what
/// came right before them, or since they began.
fn last_second(groups: &[Group], now: u128, granularity: u128, cost: u128) -> Option<Pace> {
    let (recent, before): (Vec<&Group>, Vec<&Group>) =
        groups.iter().partition(|group| now < group.came + SECOND);
    let oldest = recent.first()?;
    let right_before = before
        .last()
        .filter(|previous| oldest.came - previous.came < granularity + SECOND);
    let since = match (right_before, recent.as_slice()) {
        (Some(previous), _) => previous.came,
        (None, [only]) => only.began,
        (None, _) => oldest.came.saturating_sub(granularity),
    };
    let units: u128 = recent.iter().map(|group| group.units).sum();
    Some(Pace {
        units: units + cost,
        span: (now - since).max(SECOND),
    })
}
