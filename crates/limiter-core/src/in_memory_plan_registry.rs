//! [`InMemoryPlanRegistry`]: plans that can be replaced while running.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;

use crate::{Plan, PlanName, PlanRegistry, UnknownPlan};

/// Plans by name, in memory. Reads take no lock; plans can be replaced while requests are being decided. Until they are for the first
/// time, a lookup is a plain read.
///
/// # Examples
/// ```
/// use limiter_core::{InMemoryPlanRegistry, Plan, PlanName, PlanRegistry};
///
/// let registry = InMemoryPlanRegistry::new([Plan::new("gold", "10/s")?, Plan::new("daily", "1000/24h")?])?;
/// assert_eq!(registry.find(&PlanName::new("GOLD")?)?.limit().to_string(), "10/s");
///
/// registry.put(&Plan::new("gold", "20/s")?);
/// assert_eq!(registry.find(&PlanName::new("gold")?)?.limit().to_string(), "20/s");
///
/// let unknown = registry.find(&PlanName::new("glod")?).unwrap_err();
/// assert_eq!(unknown.to_string(), "no plan is called glod: did you mean gold?");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct InMemoryPlanRegistry {
    /// What it was made with, in the order of their names, so that a lookup is a binary search.
    first: Vec<Plan>,
    /// What stands in their place, in the same order, once somebody has changed them.
    changed: OnceLock<ArcSwap<Vec<Plan>>>,
}

impl InMemoryPlanRegistry {
    /// Registers `plans`.
    ///
    /// | input | answer |
    /// |---|---|
    /// | no plan at all | a registry in which every name is an [`UnknownPlan`] |
    /// | two plans with the same name, case apart, whatever their limits | [`DuplicatePlan`], which tells the name |
    ///
    /// # Errors
    /// [`DuplicatePlan`] if two have the same name, case apart.
    pub fn new(plans: impl IntoIterator<Item = Plan>) -> Result<Self, DuplicatePlan> {
        Ok(Self {
            first: in_order(plans)?,
            changed: OnceLock::new(),
        })
    }

    /// Puts all of `plans` in the place of those that were there, in one step.
    ///
    /// # Errors
    /// [`DuplicatePlan`] if two have the same name; the plans that were there stay.
    pub fn replace_all(&self, plans: impl IntoIterator<Item = Plan>) -> Result<(), DuplicatePlan> {
        let plans = Arc::new(in_order(plans)?);
        self.to_change().store(plans);
        Ok(())
    }

    /// Adds `plan`, or puts it in the place of the one with its name.
    pub fn put(&self, plan: &Plan) {
        self.to_change().rcu(|plans| {
            let mut plans = Vec::clone(plans);
            match place_of(&plans, plan.name()) {
                Ok(place) => plans.splice(place..=place, [plan.clone()]).for_each(drop),
                Err(place) => plans.insert(place, plan.clone()),
            }
            plans
        });
    }

    /// Removes the plan called `name`; nothing happens if there is none.
    pub fn remove(&self, name: &PlanName) {
        self.to_change().rcu(|plans| {
            let mut plans = Vec::clone(plans);
            plans.retain(|plan| plan.name() != name);
            plans
        });
    }

    /// Returns all plans, in the order of their names.
    #[must_use]
    pub fn plans(&self) -> Arc<Vec<Plan>> {
        match self.changed.get() {
            None => Arc::new(self.first.clone()),
            Some(changed) => changed.load_full(),
        }
    }

    fn to_change(&self) -> &ArcSwap<Vec<Plan>> {
        self.changed
            .get_or_init(|| ArcSwap::from_pointee(self.first.clone()))
    }
}

impl PlanRegistry for InMemoryPlanRegistry {
    fn find(&self, name: &PlanName) -> Result<Plan, UnknownPlan> {
        match self.changed.get() {
            None => find_in(&self.first, name),
            Some(changed) => find_in(&changed.load(), name),
        }
    }

    /// Lends plans out as long as nobody has changed any.
    fn lend(&self, name: &PlanName) -> Option<&Plan> {
        if self.changed.get().is_some() {
            return None;
        }
        match self.first.as_slice() {
            [only] => (only.name() == name).then_some(only),
            plans => lend_one_of(plans, name),
        }
    }
}

/// Apart, so that a lookup where there is one plan alone stays short.
#[inline(never)]
fn lend_one_of<'a>(plans: &'a [Plan], name: &PlanName) -> Option<&'a Plan> {
    let place = place_of(plans, name).ok()?;
    plans.get(place)
}

#[inline]
fn find_in(plans: &[Plan], name: &PlanName) -> Result<Plan, UnknownPlan> {
    let place = place_of(plans, name).ok();
    match place.and_then(|place| plans.get(place)) {
        Some(plan) => Ok(plan.clone()),
        None => Err(unknown(plans, name)),
    }
}

#[cold]
fn unknown(plans: &[Plan], name: &PlanName) -> UnknownPlan {
    UnknownPlan {
        name: name.clone(),
        near: near_names(plans, name),
    }
}

#[inline]
fn place_of(plans: &[Plan], name: &PlanName) -> Result<usize, usize> {
    plans.binary_search_by(|plan| plan.name().cmp(name))
}

fn in_order(plans: impl IntoIterator<Item = Plan>) -> Result<Vec<Plan>, DuplicatePlan> {
    let mut plans: Vec<_> = plans.into_iter().collect();
    plans.sort_by(|a, b| a.name().cmp(b.name()));
    match plans.array_windows().find(|[a, b]| a.name() == b.name()) {
        Some([_, twice]) => Err(DuplicatePlan {
            name: twice.name().clone(),
        }),
        None => Ok(plans),
    }
}

/// Returns the names that look like `name`, nearest first; if none does, the first few.
fn near_names(plans: &[Plan], name: &PlanName) -> Vec<PlanName> {
    const MOST: usize = 3;
    const ALIKE: f64 = 0.75;
    let wanted = name.as_str().to_ascii_lowercase();
    let likeness =
        |plan: &Plan| strsim::jaro_winkler(&wanted, &plan.name().as_str().to_ascii_lowercase());
    let mut alike: Vec<_> = plans
        .iter()
        .map(|plan| (likeness(plan), plan))
        .filter(|(like, _)| *like >= ALIKE)
        .collect();
    alike.sort_by(|a, b| b.0.total_cmp(&a.0));
    let nearest = alike.into_iter().map(|(_, plan)| plan.name().clone());
    let mut names: Vec<_> = nearest.take(MOST).collect();
    if names.is_empty() {
        names.extend(plans.iter().take(MOST).map(|plan| plan.name().clone()));
    }
    names
}

/// Says that two plans have the same name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two plans are called {name}, case apart: give each plan a name of its own")]
pub struct DuplicatePlan {
    /// The name.
    pub name: PlanName,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(name: &str, limit: &str) -> Plan {
        Plan::new(name, limit).unwrap()
    }

    fn name(name: &str) -> PlanName {
        PlanName::new(name).unwrap()
    }

    #[test]
    fn names_are_unique_case_apart() {
        let twice = [
            plan("gold", "1/s"),
            plan("silver", "1/s"),
            plan("GOLD", "2/s"),
        ];
        assert_eq!(
            InMemoryPlanRegistry::new(twice).unwrap_err().name,
            name("gold")
        );
    }

    #[test]
    fn a_bad_replacement_leaves_the_plans_that_were_there() {
        let registry = InMemoryPlanRegistry::new([plan("gold", "1/s")]).unwrap();
        assert!(
            registry
                .replace_all([plan("a", "1/s"), plan("A", "1/s")])
                .is_err()
        );
        assert!(registry.find(&name("gold")).is_ok());
    }

    #[test]
    fn plans_are_added_replaced_and_removed_while_running() {
        let registry = InMemoryPlanRegistry::default();
        for text in ["m", "a", "z", "k"] {
            registry.put(&plan(text, "1/s"));
        }
        registry.put(&plan("K", "5/s"));
        registry.remove(&name("a"));
        let names: Vec<_> = registry.plans().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["K: 5/s", "m: 1/s", "z: 1/s"]);
    }

    #[test]
    fn plans_are_lent_out_until_one_is_changed() {
        let registry = InMemoryPlanRegistry::new([plan("gold", "1/s"), plan("m", "2/s")]).unwrap();
        let of_one = InMemoryPlanRegistry::new([plan("gold", "1/s")]).unwrap();
        assert_eq!(of_one.lend(&name("GOLD")), Some(&plan("gold", "1/s")));
        assert_eq!(of_one.lend(&name("silver")), None);
        let lent = registry.lend(&name("GOLD")).unwrap();
        assert_eq!(*lent, plan("gold", "1/s"));
        assert_eq!(registry.lend(&name("silver")), None);
        registry.put(&plan("gold", "5/s"));
        assert_eq!(registry.lend(&name("gold")), None);
        assert_eq!(registry.find(&name("gold")).unwrap(), plan("gold", "5/s"));
        assert_eq!(*lent, plan("gold", "1/s"), "who has it keeps it");
    }

    #[test]
    fn an_unknown_plan_lists_near_names() {
        let registry =
            InMemoryPlanRegistry::new(["gold", "golden", "daily"].map(|name| plan(name, "1/s")))
                .unwrap();
        assert_eq!(
            registry.find(&name("Golt")).unwrap_err().near,
            [name("gold"), name("golden")]
        );
        assert_eq!(registry.find(&name("xyz")).unwrap_err().near.len(), 3);
        let empty = InMemoryPlanRegistry::default()
            .find(&name("gold"))
            .unwrap_err();
        assert_eq!(
            empty.to_string(),
            "no plan is called gold: none is registered"
        );
    }
}
