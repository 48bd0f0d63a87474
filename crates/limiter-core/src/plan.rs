//! [`Plan`]: a named limit.

use crate::{InvalidLimit, InvalidPlanName, Limit, PlanName};

/// A named limit, enforced or in shadow.
///
/// # Examples
/// ```
/// use limiter_core::{Plan, SlidingWindow, TokenBucket, hours};
///
/// let gold = Plan::new("gold", TokenBucket::per_second(1).with_capacity(10))?;
/// let daily = Plan::new("daily", SlidingWindow::new(1000, hours(24)))?;
/// let trial = Plan::new("trial", "5/min")?.in_shadow();
/// assert_eq!(gold.to_string(), "gold: 1/s burst 10");
/// assert!(daily.is_enforced() && !trial.is_enforced());
/// # Ok::<(), limiter_core::InvalidPlan>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct Plan {
    name: PlanName,
    limit: Limit,
    #[cfg_attr(feature = "serde", serde(default))]
    enforcement: Enforcement,
}

/// Whether a plan denies, or only reports that it would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "lowercase")
)]
pub enum Enforcement {
    /// The plan denies what exceeds it.
    #[default]
    Enforced,
    /// The plan counts and reports, and never denies: a limit on trial.
    Shadow,
}

impl Plan {
    /// Names a limit. Takes whatever makes a [`PlanName`] and a [`Limit`]: texts, or values of those types.
    ///
    /// | input | answer |
    /// |---|---|
    /// | what makes no [`PlanName`], as its table says: `9lives`, empty | [`InvalidPlan::Name`] |
    /// | numbers or a text that make no [`Limit`], as its table says: `0/s`, `10 per second` | [`InvalidPlan::Limit`] |
    /// | neither | [`InvalidPlan::Name`] |
    ///
    /// # Errors
    /// [`InvalidPlan`], as in the table.
    pub fn new<N, L>(name: N, limit: L) -> Result<Self, InvalidPlan>
    where
        N: TryInto<PlanName>,
        L: TryInto<Limit>,
        InvalidPlan: From<N::Error> + From<L::Error>,
    {
        Ok(Self {
            name: name.try_into()?,
            limit: limit.try_into()?,
            enforcement: Enforcement::Enforced,
        })
    }

    /// Returns the same plan, counting and reporting but never denying.
    #[must_use]
    pub fn in_shadow(mut self) -> Self {
        self.enforcement = Enforcement::Shadow;
        self
    }

    /// Returns the same plan with another limit.
    #[must_use]
    pub(crate) fn with_limit(&self, limit: Limit) -> Self {
        Self {
            limit,
            ..self.clone()
        }
    }

    /// Takes the plan apart.
    pub(crate) fn into_parts(self) -> (PlanName, Limit, Enforcement) {
        (self.name, self.limit, self.enforcement)
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(&self) -> &PlanName {
        &self.name
    }

    /// Returns the limit.
    #[must_use]
    pub const fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Returns whether the plan denies, or only reports.
    #[must_use]
    pub const fn enforcement(&self) -> Enforcement {
        self.enforcement
    }

    /// Returns whether the plan denies what exceeds it.
    #[must_use]
    pub const fn is_enforced(&self) -> bool {
        matches!(self.enforcement, Enforcement::Enforced)
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let suffix = if self.is_enforced() { "" } else { " (shadow)" };
        write!(f, "{}: {}{suffix}", self.name, self.limit)
    }
}

/// Says why a name and a limit make no [`Plan`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPlan {
    /// The name is not allowed.
    #[error(transparent)]
    Name(#[from] InvalidPlanName),
    /// The limit is not allowed.
    #[error(transparent)]
    Limit(#[from] InvalidLimit),
}

impl From<std::convert::Infallible> for InvalidPlan {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
