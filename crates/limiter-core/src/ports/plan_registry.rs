//! [`PlanRegistry`]: the inbound port from names to plans.

use crate::{Plan, PlanName};

/// Finds plans by name.
pub trait PlanRegistry: Send + Sync {
    /// Returns the plan called `name`, case apart.
    ///
    /// # Errors
    /// [`UnknownPlan`] if there is none; it lists names that look alike.
    fn find(&self, name: &PlanName) -> Result<Plan, UnknownPlan>;

    /// Returns the plan that [`find`](Self::find) would return where the registry keeps it, which saves its caller a clone. `None`
    /// says nothing of the plan: it may be unknown, or one that the registry does not lend out, as it may change meanwhile.
    ///
    /// Unless implemented, it returns `None`.
    fn lend(&self, _name: &PlanName) -> Option<&Plan> {
        None
    }
}

#[cfg(any(test, feature = "mock"))]
mockall::mock! {
    /// A [`PlanRegistry`] that answers as it is told.
    pub PlanRegistry {}

    impl PlanRegistry for PlanRegistry {
        fn find(&self, name: &PlanName) -> Result<Plan, UnknownPlan>;
    }
}

/// Says that no plan has a name, and which names look alike.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no plan is called {name}{}", Hint(near))]
pub struct UnknownPlan {
    /// The name that was asked for.
    pub name: PlanName,
    /// Known names that look alike, the nearest first; all names if there are only a few.
    pub near: Vec<PlanName>,
}

struct Hint<'a>(&'a [PlanName]);

impl std::fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some((first, rest)) = self.0.split_first() else {
            return f.write_str(": none is registered");
        };
        write!(f, ": did you mean {first}")?;
        rest.iter().try_for_each(|name| write!(f, ", {name}"))?;
        f.write_str("?")
    }
}
