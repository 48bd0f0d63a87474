//! [`Share`]: how much of each limit one node grants by itself.

use std::time::Duration;

use crate::limit::{BucketRule, FixedRule, Rate, SuppressingRule, WindowRule};
use crate::period::MAX_PERIOD_US;
use crate::{Limit, Plan};

/// How much of each limit one node grants by itself while the shared store is away.
///
/// A share of `percent` of the limit over `nodes` nodes gives each node `limit x percent / 100 / nodes`, rounded up and at
/// least one unit. All nodes together then grant at most `limit x percent / 100 + nodes` in a window, on top of what the
/// store had granted.
///
/// | input | answer |
/// |---|---|
/// | 0 nodes, or more than 10,000 | [`InvalidShare`]: `nodes is 0: 1 to 10000 is allowed` |
/// | 0 percent, or more than 100 | [`InvalidShare`]: `percent is 0: 1 to 100 is allowed` |
/// | 1 to 10,000 nodes, 1 to 100 percent | the share |
///
/// # Examples
/// ```
/// use limiter_core::{Plan, Share};
///
/// let share = Share::of_nodes(4)?.with_percent(50)?;
/// assert_eq!(share.of(&Plan::new("gold", "100/s")?).limit().units(), 13);
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
    #[must_use]
    pub fn of(self, plan: &Plan) -> Plan {
        let limit = match plan.limit() {
            Limit::TokenBucket(rule) => Limit::TokenBucket(self.of_bucket(rule)),
            Limit::SlidingWindow(rule) => Limit::SlidingWindow(self.of_window(rule)),
            Limit::SuppressingWindow(rule) => {
                let (soft, hard) = (self.of_window(rule.soft()), self.of_units(rule.hard()));
                Limit::SuppressingWindow(SuppressingRule::new(soft, hard))
            }
            Limit::FixedWindow(rule) => Limit::FixedWindow(self.of_fixed(rule)),
        };
        plan.with_limit(limit)
    }

    fn of_units(self, units: u32) -> u32 {
        let share =
            (u64::from(units) * u64::from(self.percent)).div_ceil(100 * u64::from(self.nodes));
        u32::try_from(share).unwrap_or(units).max(1)
    }

    fn of_window(self, rule: &WindowRule) -> WindowRule {
        rule.with_limit(self.of_units(rule.limit()))
    }

    fn of_fixed(self, rule: &FixedRule) -> FixedRule {
        rule.with_limit(self.of_units(rule.limit()))
    }

    /// Shrinks the capacity and stretches the refill. The refill is rounded down: never more than the share.
    fn of_bucket(self, rule: &BucketRule) -> BucketRule {
        let rate = rule.stated_rate();
        let stretched = (u128::from(rate.period_us()) * 100 * u128::from(self.nodes))
            .div_ceil(u128::from(self.percent));
        let period_us = u64::try_from(stretched)
            .unwrap_or(u64::MAX)
            .min(MAX_PERIOD_US);
        let slower = Rate::new(rate.units(), Duration::from_micros(period_us)).unwrap_or(rate);
        BucketRule::new(self.of_units(rule.capacity()), slower)
            .or_else(|_| BucketRule::new(1, slower))
            .unwrap_or(*rule)
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
    use super::*;

    fn share_of(limit: &str, nodes: u32, percent: u32) -> String {
        let share = Share::of_nodes(nodes)
            .unwrap()
            .with_percent(percent)
            .unwrap();
        share
            .of(&Plan::new("plan", limit).unwrap())
            .limit()
            .to_string()
    }

    #[test]
    fn each_algorithm_is_shared_rounding_up_to_at_least_one() {
        assert_eq!(share_of("100/s", 4, 100), "100/4s burst 25");
        assert_eq!(share_of("1/h", 10, 100), "1/10h");
        assert_eq!(share_of("sliding 1000/24h", 3, 50), "sliding 167/24h");
        assert_eq!(
            share_of("suppressing 10/min hard 15", 4, 100),
            "suppressing 3/min hard 4"
        );
        assert_eq!(share_of("fixed 2/min", 100, 1), "fixed 1/min");
    }

    #[test]
    fn a_share_that_would_refill_less_than_once_a_year_refills_once_a_year() {
        assert_eq!(share_of("1/366d", 10_000, 1), "1/366d");
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
