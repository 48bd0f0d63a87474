//! [`Plan`]: a named limit.

use std::fmt;
use std::sync::Arc;

use crate::{InvalidLimit, InvalidPlanName, Limit, PlanName};

/// A named limit, enforced or in shadow. Clones share one value: they are as cheap as a count of who holds it.
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
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(from = "NamedLimit", into = "NamedLimit")
)]
pub struct Plan(Arc<NamedLimit>);

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename = "Plan", deny_unknown_fields)
)]
struct NamedLimit {
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
        Ok(Self::from(NamedLimit {
            name: name.try_into()?,
            limit: limit.try_into()?,
            enforcement: Enforcement::Enforced,
        }))
    }

    /// Returns the same plan, counting and reporting but never denying.
    #[must_use]
    pub fn in_shadow(mut self) -> Self {
        Arc::make_mut(&mut self.0).enforcement = Enforcement::Shadow;
        self
    }

    /// Returns the same plan with another limit.
    #[must_use]
    pub(crate) fn with_limit(&self, limit: Limit) -> Self {
        Self::from(NamedLimit {
            limit,
            ..NamedLimit::clone(&self.0)
        })
    }

    /// Returns the name.
    #[must_use]
    #[inline]
    pub fn name(&self) -> &PlanName {
        &self.0.name
    }

    /// Returns the limit.
    #[must_use]
    #[inline]
    pub fn limit(&self) -> &Limit {
        &self.0.limit
    }

    /// Returns whether the plan denies, or only reports.
    #[must_use]
    pub fn enforcement(&self) -> Enforcement {
        self.0.enforcement
    }

    /// Returns whether the plan denies what exceeds it.
    #[must_use]
    #[inline]
    pub fn is_enforced(&self) -> bool {
        matches!(self.0.enforcement, Enforcement::Enforced)
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan({self})")
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.is_enforced() { "" } else { " (shadow)" };
        write!(f, "{}: {}{suffix}", self.name(), self.limit())
    }
}

impl From<NamedLimit> for Plan {
    fn from(plan: NamedLimit) -> Self {
        Self(Arc::new(plan))
    }
}

#[cfg(feature = "serde")]
impl From<Plan> for NamedLimit {
    fn from(plan: Plan) -> Self {
        Arc::unwrap_or_clone(plan.0)
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
