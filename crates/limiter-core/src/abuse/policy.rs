//! [`AbusePolicy`]: when attempts become abuse, and what it earns.

use std::fmt;

use super::escalation::EscalationRule;
use super::{Escalation, InvalidAbusePolicy, Tier, TierRule};
use crate::{Enforcement, PlanName};

/// The most tiers of a policy.
pub const MAX_TIERS: usize = 4;
/// The highest threshold of a tier. A key keeps the moments of at most so many attempts, 8 bytes each.
pub const MAX_THRESHOLD: u32 = 10_000;

/// A named set of 1 to 4 tiers, and what goes for all of them. Checked when it is built.
///
/// # Examples
/// ```
/// use limiter_core::{AbusePolicy, Tier, hours, minutes};
///
/// let login = AbusePolicy::builder("login")
///     .tier(Tier::new("temp", 5, minutes(10)).blocking_for(minutes(15)))
///     .tier(Tier::new("long", 20, hours(24)))
///     .build()?;
/// assert_eq!(login.tiers().len(), 2);
/// assert!(AbusePolicy::builder("login").tier(Tier::new("temp", 0, minutes(10))).build().is_err());
/// # Ok::<(), limiter_core::InvalidAbusePolicy>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbusePolicy {
    name: PlanName,
    tiers: Vec<TierRule>,
    while_blocked: WhileBlocked,
    escalation: Option<EscalationRule>,
    enforcement: Enforcement,
}

/// What becomes of attempts that are made while a block is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WhileBlocked {
    /// They count: who goes on trying may earn the block of another tier, or a new one as soon as this one ends.
    #[default]
    Count,
    /// They are turned away and leave no trace.
    Ignore,
}

impl AbusePolicy {
    /// Starts a policy called `name`, which has the form of a plan's name.
    pub fn builder(name: impl Into<String>) -> AbusePolicyBuilder {
        AbusePolicyBuilder {
            name: name.into(),
            tiers: Vec::new(),
            while_blocked: WhileBlocked::Count,
            escalation: None,
            enforcement: Enforcement::Enforced,
        }
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(&self) -> &PlanName {
        &self.name
    }

    /// Returns the tiers, the mildest first.
    #[must_use]
    pub fn tiers(&self) -> &[TierRule] {
        &self.tiers
    }

    /// Returns what becomes of attempts while a block is in force.
    #[must_use]
    pub const fn while_blocked(&self) -> WhileBlocked {
        self.while_blocked
    }

    /// Returns how blocks grow for repeat offenders, if they do.
    #[must_use]
    pub fn escalation(&self) -> Option<&Escalation> {
        self.escalation.as_ref().map(EscalationRule::asked)
    }

    /// Returns whether the policy blocks, or only reports.
    #[must_use]
    pub const fn enforcement(&self) -> Enforcement {
        self.enforcement
    }

    /// Returns the highest threshold: a key keeps the moments of at most so many attempts.
    #[must_use]
    pub fn largest_threshold(&self) -> u32 {
        self.tiers.last().map_or(0, TierRule::threshold)
    }

    /// Returns the longest window in microseconds: an attempt means nothing once it is that old.
    #[must_use]
    pub fn longest_window_us(&self) -> u64 {
        self.tiers.last().map_or(0, TierRule::window_us)
    }

    pub(super) const fn escalation_rule(&self) -> Option<&EscalationRule> {
        self.escalation.as_ref()
    }
}

impl fmt::Display for AbusePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        for (nth, tier) in self.tiers.iter().enumerate() {
            let comma = if nth == 0 { "" } else { ", " };
            write!(f, "{comma}{tier}")?;
        }
        match self.enforcement {
            Enforcement::Enforced => Ok(()),
            Enforcement::Shadow => f.write_str(" (shadow)"),
        }
    }
}

/// Builds an [`AbusePolicy`], and refuses what makes no sense.
///
/// Tiers are listed from the mildest on: with each one the window is no shorter, the threshold higher, the block no shorter.
///
/// | input | answer |
/// |---|---|
/// | a name not of the form of a plan's name | [`InvalidAbusePolicy::Name`] |
/// | no tier; more than 4 | [`InvalidAbusePolicy::NoTiers`], [`InvalidAbusePolicy::TooManyTiers`] |
/// | two tiers of one name, case apart | [`InvalidAbusePolicy::DuplicateTier`] |
/// | threshold of 0, or above 10,000 | [`InvalidAbusePolicy::Threshold`] |
/// | window or block below 1 ms, above 366 days or with parts of a microsecond | [`InvalidAbusePolicy::Period`] |
/// | a tier with a shorter window than the one before | [`InvalidAbusePolicy::WindowsNotAscending`] |
/// | a tier that the next one always overrules | [`InvalidAbusePolicy::ThresholdsNotAscending`] |
/// | a longer tier with a shorter block | [`InvalidAbusePolicy::ShorterBlock`] |
/// | an escalation that cannot be | see [`Escalation`] |
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct AbusePolicyBuilder {
    name: String,
    tiers: Vec<Tier>,
    while_blocked: WhileBlocked,
    escalation: Option<Escalation>,
    enforcement: Enforcement,
}

impl AbusePolicyBuilder {
    /// Adds a tier, harder than those before it.
    pub fn tier(mut self, tier: Tier) -> Self {
        self.tiers.push(tier);
        self
    }

    /// Does `what` with attempts that are made while a block is in force; they count unless told otherwise.
    pub const fn while_blocked(mut self, what: WhileBlocked) -> Self {
        self.while_blocked = what;
        self
    }

    /// Blocks repeat offenders for longer.
    pub const fn escalating(mut self, escalation: Escalation) -> Self {
        self.escalation = Some(escalation);
        self
    }

    /// Counts and reports, and never blocks: a policy on trial.
    pub const fn in_shadow(mut self) -> Self {
        self.enforcement = Enforcement::Shadow;
        self
    }

    /// Builds the policy.
    ///
    /// # Errors
    /// [`InvalidAbusePolicy`], as in the table above.
    pub fn build(self) -> Result<AbusePolicy, InvalidAbusePolicy> {
        let name = PlanName::new(&self.name)
            .map_err(|_| InvalidAbusePolicy::name("policy", &self.name))?;
        match self.tiers.len() {
            0 => return Err(InvalidAbusePolicy::NoTiers),
            1..=MAX_TIERS => {}
            tiers => return Err(InvalidAbusePolicy::TooManyTiers { tiers }),
        }
        let tiers = self.tiers.into_iter().map(TierRule::try_from);
        let tiers = tiers.collect::<Result<Vec<_>, _>>()?;
        check_names(&tiers)?;
        for pair in tiers.windows(2) {
            if let [before, tier] = pair {
                check_order(before, tier)?;
            }
        }
        let escalation = self
            .escalation
            .map(|asked| EscalationRule::new(asked, &tiers))
            .transpose()?;
        Ok(AbusePolicy {
            name,
            tiers,
            while_blocked: self.while_blocked,
            escalation,
            enforcement: self.enforcement,
        })
    }
}

fn check_names(tiers: &[TierRule]) -> Result<(), InvalidAbusePolicy> {
    for (nth, tier) in tiers.iter().enumerate() {
        let mut earlier = tiers.iter().take(nth);
        if earlier.any(|earlier| earlier.name() == tier.name()) {
            return Err(InvalidAbusePolicy::DuplicateTier {
                name: tier.name().clone(),
            });
        }
    }
    Ok(())
}

fn check_order(before: &TierRule, tier: &TierRule) -> Result<(), InvalidAbusePolicy> {
    let names = || (before.name().clone(), tier.name().clone());
    if tier.window_us() < before.window_us() {
        let (before, tier) = names();
        return Err(InvalidAbusePolicy::WindowsNotAscending { before, tier });
    }
    if tier.block_us() < before.block_us() {
        let (before, tier) = names();
        return Err(InvalidAbusePolicy::ShorterBlock { before, tier });
    }
    if tier.threshold() <= before.threshold() {
        let (before, tier) = names();
        return Err(InvalidAbusePolicy::ThresholdsNotAscending { before, tier });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{days, hours, minutes, seconds};
    use std::time::Duration;

    fn refusal(builder: AbusePolicyBuilder) -> String {
        builder.build().unwrap_err().to_string()
    }

    fn of(tiers: impl IntoIterator<Item = Tier>) -> AbusePolicyBuilder {
        tiers
            .into_iter()
            .fold(AbusePolicy::builder("login"), AbusePolicyBuilder::tier)
    }

    #[test]
    fn sensible_policies_are_built() {
        let four = [
            Tier::new("a", 1, Duration::from_millis(1)),
            Tier::new("b", 2, Duration::from_millis(1)),
            Tier::new("c", 9_999, hours(1)).blocking_for(hours(1)),
            Tier::new("d", 10_000, days(366)),
        ];
        let policy = of(four).build().unwrap();
        assert_eq!(policy.largest_threshold(), 10_000);
        assert_eq!(policy.longest_window_us(), 366 * 86_400_000_000);
        assert_eq!(policy.while_blocked(), WhileBlocked::Count);
    }

    #[test]
    fn nonsense_is_refused_and_the_refusal_says_why() {
        let temp = Tier::new("temp", 5, minutes(10)).blocking_for(minutes(15));
        let long = |threshold| Tier::new("long", threshold, hours(24));
        let cases = [
            (of([]), "the policy has no tier"),
            (of(vec![temp.clone(); 5]), "the policy has 5 tiers: 1 to 4"),
            (
                of([Tier::new("temp", 0, minutes(1))]),
                "threshold 0: 1 to 10000",
            ),
            (
                of([Tier::new("temp", 10_001, minutes(1))]),
                "threshold 10001: 1 to 10000",
            ),
            (
                of([temp.clone(), Tier::new("TEMP", 20, hours(1))]),
                "two tiers are called TEMP",
            ),
            (of([Tier::new("9", 5, minutes(1))]), "tier name \"9\""),
            (
                AbusePolicy::builder("a b").tier(temp.clone()),
                "policy name \"a b\"",
            ),
            (
                of([temp.clone(), long(20).blocking_for(minutes(14))]),
                "tier long is harder to reach than temp and blocks for less",
            ),
            (
                of([long(20), temp.clone()]),
                "temp has a shorter window than long",
            ),
            (of([temp.clone(), long(5)]), "temp would never decide"),
            (
                of([Tier::new("temp", 5, Duration::from_micros(999))]),
                "tier temp: window is 999 us: 1 ms to 366 days",
            ),
            (
                of([temp.clone().blocking_for(days(367))]),
                "tier temp: block is",
            ),
            (
                of([temp.clone().blocking_for(Duration::from_nanos(1_000_001))]),
                "whole microseconds",
            ),
        ];
        for (builder, why) in cases {
            let refusal = refusal(builder);
            assert!(refusal.contains(why), "{refusal:?} does not say {why:?}");
        }
    }

    #[test]
    fn nonsense_of_escalations_is_refused_and_the_refusal_says_why() {
        let with = |escalation| of([Tier::new("temp", 5, minutes(15))]).escalating(escalation);
        let cases = [
            (
                Escalation::doubling(days(1), minutes(14)),
                "caps blocks below",
            ),
            (
                Escalation::doubling(days(1), days(367)),
                "escalation: cap is",
            ),
            (
                Escalation::doubling(seconds(0), days(1)),
                "escalation: memory is",
            ),
            (
                Escalation::doubling(days(1), days(1)).by(1),
                "multiplies by 1: 2 to 100",
            ),
            (
                Escalation::doubling(days(1), days(1)).by(101),
                "multiplies by 101",
            ),
        ];
        for (escalation, why) in cases {
            let refusal = refusal(with(escalation));
            assert!(refusal.contains(why), "{refusal:?} does not say {why:?}");
        }
    }

    #[test]
    fn a_policy_tells_its_tiers() {
        let policy = of([Tier::new("temp", 5, minutes(10)).blocking_for(seconds(90))]).in_shadow();
        assert_eq!(
            policy.build().unwrap().to_string(),
            "login: temp 5 in 10min blocks 90s (shadow)"
        );
    }
}
