//! [`RateLimit`]: what a route asks of its callers.

use std::sync::Arc;

use limiter_core::{
    Cost, Decision, InvalidCost, InvalidPlanName, InvalidRequest, KeyResolver, MAX_CHAIN, PlanName,
};
#[cfg(feature = "axum")]
use limiter_core::{Key, RequestSource, UnresolvedKey};

use crate::HeaderStyle;
use crate::headers::{Fields, PolicyLine};

/// What a request is limited by: one or more plans, who is limited, and what the request costs.
///
/// Written down freely, and checked when a layer is built of it.
///
/// | input | answer, once it is checked |
/// |---|---|
/// | a plan's name of another form than `[A-Za-z][A-Za-z0-9._-]{0,63}` | [`InvalidRateLimit::Plan`] |
/// | no plan, more than 16, or one twice | [`InvalidRateLimit::Plans`] |
/// | a cost of 0 | [`InvalidRateLimit::Cost`] |
/// | a key that the layer does not know | [`InvalidRateLimit::UnknownKey`] |
///
/// # Examples
/// ```
/// use limiter_axum::RateLimit;
///
/// let simple = RateLimit::plan("gold");
/// let search = RateLimit::plans(["gold", "daily"]).cost(5).key("api-key").refund_failures();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a rate limit does nothing until it is given to a layer"]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct RateLimit {
    plans: Vec<String>,
    #[cfg_attr(feature = "serde", serde(default = "one"))]
    cost: u32,
    #[cfg_attr(feature = "serde", serde(default))]
    key: Option<String>,
    #[cfg_attr(feature = "serde", serde(default))]
    refund_failures: bool,
}

#[cfg(feature = "serde")]
pub(crate) const fn one() -> u32 {
    1
}

impl RateLimit {
    /// Limits by one plan.
    pub fn plan(name: impl Into<String>) -> Self {
        Self::plans([name])
    }

    /// Limits by several plans at once, all or nothing.
    pub fn plans<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self {
            plans: names.into_iter().map(Into::into).collect(),
            cost: Cost::ONE.get(),
            key: None,
            refund_failures: false,
        }
    }

    /// Sets what a request costs: at least 1, and 1 if nobody says otherwise.
    pub const fn cost(mut self, units: u32) -> Self {
        self.cost = units;
        self
    }

    /// Limits by the key that the layer knows under this name, in place of its first one.
    pub fn key(mut self, name: impl Into<String>) -> Self {
        self.key = Some(name.into());
        self
    }

    /// Gives the cost back when the request fails: the response is a server error (5xx), or the inner service returns an error.
    ///
    /// What ends without either stays charged: a handler that panics, unless a layer inside of this one makes a response of that, and
    /// a caller that hangs up, who could otherwise ask for free.
    pub const fn refund_failures(mut self) -> Self {
        self.refund_failures = true;
        self
    }

    pub(crate) fn check(&self, keys: &Keys) -> Result<CheckedLimit, InvalidRateLimit> {
        let names = self.plans.iter().map(PlanName::new);
        let plans = names.collect::<Result<Vec<_>, _>>()?;
        if plans.is_empty() {
            return Err(InvalidRequest::NoPlans.into());
        }
        if plans.len() > MAX_CHAIN {
            return Err(InvalidRequest::TooManyPlans { plans: plans.len() }.into());
        }
        let twice = |(nth, name): (usize, &PlanName)| {
            let earlier = plans.iter().take(nth).any(|other| other == name);
            earlier.then(|| name.clone())
        };
        if let Some(plan) = plans.iter().enumerate().find_map(twice) {
            return Err(InvalidRequest::DuplicatePlan { plan }.into());
        }
        let (_, resolver) = keys.find(self.key.as_deref())?;
        Ok(CheckedLimit {
            cost: Cost::new(self.cost)?,
            resolver: Arc::clone(resolver),
            plans,
            refund_failures: self.refund_failures,
            policy_line: None,
        })
    }

    /// Returns the place of its key among those of a layer.
    #[cfg(feature = "axum")]
    pub(crate) fn key_place(&self, keys: &Keys) -> Result<usize, InvalidRateLimit> {
        keys.find(self.key.as_deref()).map(|(place, _)| place)
    }

    /// Checks a limit that a layer keeps, and applies to many requests.
    pub(crate) fn check_to_keep(&self, keys: &Keys) -> Result<Arc<CheckedLimit>, InvalidRateLimit> {
        let mut limit = self.check(keys)?;
        limit.policy_line = Some(PolicyLine::default());
        Ok(Arc::new(limit))
    }
}

/// A rate limit that was checked. In this order in memory as well: what every request needs comes first, and side by side.
#[repr(C)]
pub(crate) struct CheckedLimit {
    pub(crate) resolver: Arc<dyn KeyResolver>,
    pub(crate) refund_failures: bool,
    pub(crate) cost: Cost,
    pub(crate) plans: Vec<PlanName>,
    /// There is one if the limit is applied to many requests.
    pub(crate) policy_line: Option<PolicyLine>,
}

impl CheckedLimit {
    /// Writes down what the client is told after `decision`.
    pub(crate) fn fields(&self, decision: &Decision, style: &HeaderStyle) -> Option<Fields> {
        Fields::of(style, decision, self.policy_line.as_ref())
    }
}

/// The keys that a layer knows: the first one, and others by name.
#[derive(Clone)]
pub(crate) struct Keys {
    resolvers: Vec<(String, Arc<dyn KeyResolver>)>,
}

/// How the first key is called.
const FIRST: &str = "default";

impl Keys {
    pub(crate) fn new(first: impl KeyResolver + 'static) -> Self {
        Self {
            resolvers: vec![(FIRST.to_owned(), Arc::new(first))],
        }
    }

    /// Adds a key, or puts it in the place of the one with its name. The first key has none that could be given.
    pub(crate) fn put(&mut self, name: String, resolver: Arc<dyn KeyResolver>) {
        self.resolvers
            .retain(|(known, _)| *known != name || known == FIRST);
        self.resolvers.push((name, resolver));
    }

    /// Says whether a key was added under the name of the first one, where nobody would find it.
    pub(crate) fn hide_one(&self) -> bool {
        let mut added = self.resolvers.iter().skip(1);
        added.any(|(name, _)| name == FIRST)
    }

    pub(crate) fn first(&self) -> Option<&Arc<dyn KeyResolver>> {
        self.resolvers.first().map(|(_, resolver)| resolver)
    }

    fn find(&self, name: Option<&str>) -> Result<(usize, &Arc<dyn KeyResolver>), InvalidRateLimit> {
        let wanted = name.unwrap_or(FIRST);
        let mut each = self.resolvers.iter().enumerate();
        let found = each
            .find_map(|(place, (known, resolver))| (known == wanted).then_some((place, resolver)));
        found.ok_or_else(|| {
            let known: Vec<&str> = self
                .resolvers
                .iter()
                .map(|(name, _)| name.as_str())
                .collect();
            InvalidRateLimit::UnknownKey {
                name: wanted.chars().take(64).collect(),
                known: known.join(", "),
            }
        })
    }

    /// Resolves each key, in the order of their places.
    #[cfg(feature = "axum")]
    pub(crate) fn resolve_all(
        &self,
        request: &dyn RequestSource,
    ) -> Vec<Result<Key, UnresolvedKey>> {
        let resolve = |(_, resolver): &(_, Arc<dyn KeyResolver>)| resolver.resolve(request);
        self.resolvers.iter().map(resolve).collect()
    }
}

/// Says why a [`RateLimit`] cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRateLimit {
    /// A plan's name is not allowed.
    #[error(transparent)]
    Plan(#[from] InvalidPlanName),
    /// The plans make no chain.
    #[error(transparent)]
    Plans(#[from] InvalidRequest),
    /// The cost is not allowed.
    #[error(transparent)]
    Cost(#[from] InvalidCost),
    /// The layer knows no key of that name.
    #[error("no key is called {name:?}: this layer knows {known}")]
    UnknownKey {
        /// The name asked for.
        name: String,
        /// The names that the layer knows.
        known: String,
    },
}
