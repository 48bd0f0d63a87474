//! [`Tier`]: so many attempts in a window, and the block that they earn.

use std::fmt;
use std::time::Duration;

use super::{InvalidAbusePolicy, MAX_THRESHOLD};
use crate::PlanName;
use crate::limit::{PeriodText, checked_period};

/// A tier, as asked for: the attempt number `threshold` inside `window` starts a block.
///
/// The block lasts as long as the window unless [`blocking_for`](Self::blocking_for) says otherwise. What is allowed stands
/// at [`AbusePolicyBuilder`](crate::AbusePolicyBuilder), which checks it.
///
/// # Examples
/// ```
/// use limiter_core::{AbusePolicy, Tier, hours, minutes};
///
/// let policy = AbusePolicy::builder("login")
///     .tier(Tier::new("temp", 5, minutes(10)).blocking_for(minutes(15)))
///     .tier(Tier::new("long", 20, hours(24)))
///     .build()?;
/// assert_eq!(policy.to_string(), "login: temp 5 in 10min blocks 15min, long 20 in 24h blocks 24h");
/// # Ok::<(), limiter_core::InvalidAbusePolicy>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a tier does nothing until a policy has it"]
pub struct Tier {
    name: String,
    threshold: u32,
    window: Duration,
    block: Duration,
}

impl Tier {
    /// Asks for a block from the attempt number `threshold` inside `window` on, for as long as `window`.
    ///
    /// The name is what blocked callers are told as the scope: `temp`, `long`, ... It has the form of a plan's name.
    pub fn new(name: impl Into<String>, threshold: u32, window: Duration) -> Self {
        Self {
            name: name.into(),
            threshold,
            window,
            block: window,
        }
    }

    /// Blocks for `block`.
    pub const fn blocking_for(mut self, block: Duration) -> Self {
        self.block = block;
        self
    }
}

/// The checked numbers of a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierRule {
    name: PlanName,
    threshold: u32,
    window_us: u64,
    block_us: u64,
}

impl TierRule {
    /// Returns the name: the scope of this tier's blocks.
    #[must_use]
    pub const fn name(&self) -> &PlanName {
        &self.name
    }

    /// Returns the number of the attempt that starts a block.
    #[must_use]
    pub const fn threshold(&self) -> u32 {
        self.threshold
    }

    /// Returns the length of the window in microseconds.
    #[must_use]
    pub const fn window_us(&self) -> u64 {
        self.window_us
    }

    /// Returns the length of the first block in microseconds.
    #[must_use]
    pub const fn block_us(&self) -> u64 {
        self.block_us
    }

    /// Returns the length of the window.
    #[must_use]
    pub const fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }

    /// Returns the length of the first block.
    #[must_use]
    pub const fn block(&self) -> Duration {
        Duration::from_micros(self.block_us)
    }
}

impl TryFrom<Tier> for TierRule {
    type Error = InvalidAbusePolicy;

    fn try_from(asked: Tier) -> Result<Self, InvalidAbusePolicy> {
        let name = PlanName::new(&asked.name)
            .map_err(|_| InvalidAbusePolicy::name("tier", &asked.name))?;
        if !(1..=MAX_THRESHOLD).contains(&asked.threshold) {
            return Err(InvalidAbusePolicy::Threshold {
                tier: name,
                threshold: asked.threshold,
            });
        }
        let period = |what, period| {
            checked_period(what, period).map_err(|cause| InvalidAbusePolicy::Period {
                of: format!("tier {name}"),
                cause,
            })
        };
        Ok(Self {
            threshold: asked.threshold,
            window_us: period("window", asked.window)?,
            block_us: period("block", asked.block)?,
            name: name.clone(),
        })
    }
}

impl fmt::Display for TierRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} in {} blocks {}",
            self.name,
            self.threshold,
            PeriodText::of(self.window_us),
            PeriodText::of(self.block_us)
        )
    }
}
