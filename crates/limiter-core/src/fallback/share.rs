//! [`Share`]: how much of each limit one node grants by itself.

use std::time::Duration;

use crate::limit::{BucketRule, FixedRule, Rate, SuppressingRule, WindowRule};
use crate::period::MAX_PERIOD_US;
use crate::{Limit, Plan, PlanName};

/// How much of each limit one node grants by itself while the shared store is away.
///
/// A share of `percent` of the limit over `nodes` nodes gives each node `limit x percent / 100 / nodes`, rounded up, over a time
/// that is stretched by what was rounded: never a higher rate than the share. In any time, all nodes together grant at most
/// `limit x percent / 100 + nodes` and what the share of the rate brings, on top of what the store had granted.
///
/// | input | answer |
/// |---|---|
/// | 0 nodes, or more than 10,000 | [`InvalidShare`]: `nodes is 0: 1 to 10000 is allowed` |
/// | 0 percent, or more than 100 | [`InvalidShare`]: `percent is 0: 1 to 100 is allowed` |
/// | 1 to 10,000 nodes, 1 to 100 percent | the share |
/// | a plan of which a node's share is less than one unit in 366 days | [`ShareTooSmall`] |
///
/// # Examples
/// ```
/// use limiter_core::{Plan, Share};
///
/// let share = Share::of_nodes(4)?.with_percent(50)?;
/// assert_eq!(share.of(&Plan::new("gold", "100/s")?)?.limit().units(), 13);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    nodes: u32,
    percent: u32,
}

impl Share {
    /// Splits each whole limit over `nodes` nodes.
    ///
    /// # Errors
    /// [`InvalidShare`] unless there are 1 to 10,000 nodes.
    pub const fn of_nodes(nodes: u32) -> Result<Self, InvalidShare> {
        match nodes {
            1..=10_000 => Ok(Self {
                nodes,
                percent: 100,
            }),
            _ => Err(InvalidShare {
                what: "nodes",
                given: nodes,
                most: 10_000,
            }),
        }
    }

    /// Splits only `percent` hundredths of each limit.
    ///
    /// # Errors
    /// [`InvalidShare`] unless `percent` is 1 to 100.
    pub const fn with_percent(mut self, percent: u32) -> Result<Self, InvalidShare> {
        match percent {
            1..=100 => {
                self.percent = percent;
                Ok(self)
            }
            _ => Err(InvalidShare {
                what: "percent",
                given: percent,
                most: 100,
            }),
        }
    }

    /// Returns `plan` with this node's share of its limit.
    ///
    /// # Errors
    /// [`ShareTooSmall`] if that is less than one unit in 366 days, the longest time of a limit.
    pub fn of(self, plan: &Plan) -> Result<Plan, ShareTooSmall> {
        let limit = match plan.limit() {
            Limit::TokenBucket(rule) => self.of_bucket(rule).map(Limit::TokenBucket),
            Limit::SlidingWindow(rule) => self.of_window(rule).map(Limit::SlidingWindow),
            Limit::SuppressingWindow(rule) => self
                .of_suppressing_window(rule)
                .map(Limit::SuppressingWindow),
            Limit::FixedWindow(rule) => self.of_fixed_window(rule).map(Limit::FixedWindow),
        };
        let too_small = || ShareTooSmall {
            plan: plan.name().clone(),
            share: self,
        };
        Ok(plan.with_limit(limit.ok_or_else(too_small)?))
    }

    /// Returns the share of so many units, rounded up.
    fn of_units(self, units: u32) -> u32 {
        let share = (u128::from(units) * self.numerator()).div_ceil(self.denominator());
        u32::try_from(share).unwrap_or(units)
    }

    /// Returns in how many microseconds the share brings `granted` units, if `units` come in `period_us`; rounded up.
    fn time_for(self, granted: u32, units: u32, period_us: u64) -> u128 {
        let time = u128::from(granted) * u128::from(period_us) * self.denominator();
        time.div_ceil(u128::from(units) * self.numerator())
    }

    /// Returns how many units the share brings in the longest time that a limit may have, if `units` come in `period_us`.
    fn at_most(self, units: u32, period_us: u64) -> Option<u32> {
        let units = u128::from(units) * self.numerator() * u128::from(MAX_PERIOD_US);
        let share = u32::try_from(units / (self.denominator() * u128::from(period_us)));
        share.ok().filter(|&share| share > 0)
    }

    fn of_bucket(self, rule: &BucketRule) -> Option<BucketRule> {
        let (stated, period_us) = (rule.stated_rate(), rule.stated_rate().period_us());
        let stretched_us = self.time_for(stated.units(), stated.units(), period_us);
        let (units, period_us) = match u64::try_from(stretched_us) {
            Ok(stretched_us) if stretched_us <= MAX_PERIOD_US => (stated.units(), stretched_us),
            _ => (self.at_most(stated.units(), period_us)?, MAX_PERIOD_US),
        };
        let rate = Rate::new(units, Duration::from_micros(period_us)).ok()?;
        BucketRule::of_at_most(self.of_units(rule.capacity()), rate)
    }

    fn of_window(self, rule: &WindowRule) -> Option<WindowRule> {
        let (granted, window_us) = self.in_window(rule.limit(), rule.window_us())?;
        Some(rule.stretched(granted, window_us))
    }

    fn of_fixed_window(self, rule: &FixedRule) -> Option<FixedRule> {
        let (granted, window_us) = self.in_window(rule.limit(), rule.window_us())?;
        Some(FixedRule::of_checked(granted, window_us))
    }

    /// Both limits over one window: the longer of the two that they need.
    fn of_suppressing_window(self, rule: &SuppressingRule) -> Option<SuppressingRule> {
        let (soft, window_us) = (rule.soft().limit(), rule.soft().window_us());
        let (_, for_soft_us) = self.in_window(soft, window_us)?;
        let (_, for_hard_us) = self.in_window(rule.hard(), window_us)?;
        let stretched_us = for_soft_us.max(for_hard_us);
        let granted = |units| match stretched_us {
            MAX_PERIOD_US => self
                .at_most(units, window_us)
                .map(|most| most.min(self.of_units(units))),
            _ => Some(self.of_units(units)),
        };
        let soft = rule.soft().stretched(granted(soft)?, stretched_us);
        Some(SuppressingRule::new(soft, granted(rule.hard())?))
    }

    /// Returns how many units the share is, and the window that it stretches to.
    fn in_window(self, units: u32, window_us: u64) -> Option<(u32, u64)> {
        let granted = self.of_units(units);
        match u64::try_from(self.time_for(granted, units, window_us)) {
            Ok(stretched_us) if stretched_us <= MAX_PERIOD_US => Some((granted, stretched_us)),
            _ => Some((self.at_most(units, window_us)?, MAX_PERIOD_US)),
        }
    }

    fn numerator(self) -> u128 {
        self.percent.into()
    }

    fn denominator(self) -> u128 {
        100 * u128::from(self.nodes)
    }
}

/// Says that a node's share of a plan is less than one unit in 366 days. Such a share denies.
///
/// # Examples
/// ```
/// use limiter_core::{Plan, Share};
///
/// let share = Share::of_nodes(100)?.with_percent(10)?;
/// let error = share.of(&Plan::new("gold", "100/366d")?).unwrap_err();
/// assert_eq!(error.to_string(), "10 % of plan gold over 100 nodes is less than one unit in 366 days for each");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} % of plan {plan} over {} nodes is less than one unit in 366 days for each",
    share.percent,
    share.nodes
)]
pub struct ShareTooSmall {
    plan: PlanName,
    share: Share,
}

impl ShareTooSmall {
    /// Returns the plan.
    #[must_use]
    pub const fn plan(&self) -> &PlanName {
        &self.plan
    }
}

/// Says that a share is out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {given}: 1 to {most} is allowed")]
pub struct InvalidShare {
    what: &'static str,
    given: u32,
    most: u32,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{FixedWindow, SlidingWindow, SuppressingWindow, TokenBucket};

    fn share_of(limit: &str, nodes: u32, percent: u32) -> String {
        let share = Share::of_nodes(nodes)
            .unwrap()
            .with_percent(percent)
            .unwrap();
        match share.of(&Plan::new("plan", limit).unwrap()) {
            Ok(plan) => plan.limit().to_string(),
            Err(too_small) => too_small.to_string(),
        }
    }

    #[test]
    fn each_algorithm_is_shared_rounding_up_and_stretched_by_as_much() {
        assert_eq!(share_of("100/s", 4, 100), "100/4s burst 25");
        assert_eq!(share_of("1/h", 10, 100), "1/10h");
        assert_eq!(share_of("sliding 1000/24h", 4, 100), "sliding 250/24h");
        assert_eq!(share_of("sliding 3/h", 2, 100), "sliding 2/80min");
        assert_eq!(
            share_of("suppressing 10/min hard 15", 4, 100),
            "suppressing 3/72s hard 4"
        );
        assert_eq!(share_of("fixed 2/min", 100, 1), "fixed 1/5000min");
        assert_eq!(share_of("10000/30d", 20, 100), "6100/366d burst 500");
    }

    #[test]
    fn a_share_below_one_unit_in_the_longest_time_says_so() {
        let too_small =
            "1 % of plan plan over 10000 nodes is less than one unit in 366 days for each";
        for limit in [
            "1/366d",
            "sliding 1/366d",
            "suppressing 1/366d",
            "fixed 1/366d",
            "99/366d",
        ] {
            assert_eq!(share_of(limit, 10_000, 1), too_small, "{limit}");
        }
        assert_eq!(share_of("1000000/366d", 10_000, 1), "1/366d");
    }

    /// Returns what a limit brings in the long run: units in so many microseconds.
    fn rates(limit: &Limit) -> Vec<(u128, u128)> {
        let (units, time): (Vec<u32>, u64) = match limit {
            Limit::TokenBucket(rule) => (vec![rule.rate().units()], rule.rate().period_us()),
            Limit::SlidingWindow(rule) => (vec![rule.limit()], rule.window_us()),
            Limit::SuppressingWindow(rule) => (
                vec![rule.soft().limit(), rule.hard()],
                rule.soft().window_us(),
            ),
            Limit::FixedWindow(rule) => (vec![rule.limit()], rule.window_us()),
        };
        units
            .into_iter()
            .map(|units| (units.into(), time.into()))
            .collect()
    }

    fn limits() -> impl Strategy<Value = Limit> {
        let units = prop_oneof![1..=20_u32, 1..=1_000_000_000_u32];
        let year_us = 366 * 86_400_000_000_u64;
        let time = prop_oneof![
            1_000..=100_000_u64,
            1_000..=year_us,
            year_us / 100..=year_us
        ];
        (0..4, units.clone(), units, time).prop_filter_map("no limit", |(kind, units, more, us)| {
            let time = Duration::from_micros(us);
            match kind {
                0 => TokenBucket::new(units, time)
                    .with_capacity(more)
                    .try_into()
                    .ok(),
                1 => SlidingWindow::new(units, time).try_into().ok(),
                2 => SuppressingWindow::new(units, time)
                    .with_hard_limit(more)
                    .try_into()
                    .ok(),
                _ => FixedWindow::new(units, time).try_into().ok(),
            }
        })
    }

    proptest! {
        #[test]
        fn prop_all_nodes_together_never_exceed_the_shared_rate(
            limit in limits(),
            nodes in prop_oneof![1..=30_u32, 1..=10_000_u32],
            percent in 1..=100_u32,
        ) {
            let share = Share::of_nodes(nodes).unwrap().with_percent(percent).unwrap();
            let whole = Plan::new("plan", limit).unwrap();
            let all = u128::from(nodes) * 100;
            if let Ok(part) = share.of(&whole) {
                for (part, whole) in rates(part.limit()).into_iter().zip(rates(&limit)) {
                    prop_assert!(part.0 > 0);
                    let lower = part.0 * all * whole.1 <= whole.0 * u128::from(percent) * part.1;
                    prop_assert!(lower, "{share:?} of {limit} is {part:?}");
                }
                let most = (u128::from(limit.units()) * u128::from(percent)).div_ceil(all);
                prop_assert!(u128::from(part.limit().units()) <= most);
            } else {
                let year_us = 366 * 86_400_000_000_u128;
                let (units, time) = rates(&limit)[0];
                prop_assert!(units * u128::from(percent) * year_us < time * all);
            }
        }
    }

    #[test]
    fn shares_out_of_bounds_are_refused() {
        assert!(Share::of_nodes(0).is_err() && Share::of_nodes(10_001).is_err());
        let all = Share::of_nodes(1).unwrap();
        assert!(all.with_percent(0).is_err() && all.with_percent(101).is_err());
        assert_eq!(
            Share::of_nodes(0).unwrap_err().to_string(),
            "nodes is 0: 1 to 10000 is allowed"
        );
    }
}
