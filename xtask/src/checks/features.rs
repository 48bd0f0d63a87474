//! Every combination of features that a user can pick builds without a warning, and examples with no more than they ask for.

use std::collections::{BTreeMap, BTreeSet};

use super::{ensure_component, examples::check_alone};
use crate::{
    problem::Problem,
    process::{cargo, run},
    workspace::Workspace,
};

/// More than this many features make too many combinations to build.
const FEATURES_MAX: usize = 8;

type Features = BTreeMap<String, Vec<String>>;
type Combination = BTreeSet<String>;

/// Clippy, not `cargo check`: it does the same and can refuse warnings without building the dependencies anew.
pub(crate) fn features(workspace: &Workspace) -> Result<(), Problem> {
    ensure_component("clippy", "clippy")?;
    for package in workspace.crates() {
        let combinations = combinations(&package.features).ok_or_else(|| {
            let name = &package.name;
            Problem::CannotRun(format!("{name} has more than {FEATURES_MAX} features"))
        })?;
        for combination in combinations {
            let mut command = cargo(["clippy", "--quiet", "--package", &package.name]);
            command.arg("--no-default-features");
            if !combination.is_empty() {
                command.args(["--features", &Vec::from_iter(combination).join(",")]);
            }
            run(command.args(["--", "-D", "warnings"]))?;
        }
    }
    workspace.members().try_for_each(check_alone)
}

/// Every set of features that differs in what it turns on. Names with a leading underscore are not for users; defaults
/// that only turn other features on are no more than the set of those.
fn combinations(features: &Features) -> Option<BTreeSet<Combination>> {
    let only_names = |turns_on: &[String]| turns_on.iter().all(|name| features.contains_key(name));
    let names: Vec<&str> = features
        .iter()
        .filter(|(name, _)| !name.starts_with('_'))
        .filter(|(name, turns_on)| *name != "default" || !only_names(turns_on))
        .map(|(name, _)| name.as_str())
        .collect();
    if names.len() > FEATURES_MAX {
        return None;
    }
    let sets = (0..1_usize << names.len()).map(|set| {
        let chosen = names
            .iter()
            .enumerate()
            .filter(|(bit, _)| set >> bit & 1 == 1);
        turned_on(features, chosen.map(|(_, name)| *name).collect())
    });
    Some(sets.collect())
}

/// `chosen` and every feature that follows from it.
fn turned_on<'a>(features: &'a Features, mut chosen: Vec<&'a str>) -> Combination {
    let mut all = Combination::new();
    while let Some(name) = chosen.pop() {
        if let Some(implied) = features.get(name)
            && all.insert(name.to_owned())
        {
            chosen.extend(implied.iter().map(String::as_str));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(table: &[(&str, &[&str])]) -> Option<Vec<String>> {
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let features = table
            .iter()
            .map(|(name, on)| ((*name).to_owned(), owned(on)));
        let found = combinations(&features.collect())?;
        Some(
            found
                .into_iter()
                .map(|set| Vec::from_iter(set).join("+"))
                .collect(),
        )
    }

    #[test]
    fn a_crate_without_features_has_one_combination() {
        assert_eq!(of(&[]).unwrap(), [""]);
        assert_eq!(of(&[("default", &[])]).unwrap(), [""]);
    }

    #[test]
    fn independent_features_give_every_subset() {
        let found = of(&[("mock", &["dep:mockall"]), ("serde", &["dep:serde"])]).unwrap();
        assert_eq!(found, ["", "mock", "mock+serde", "serde"]);
    }

    #[test]
    fn a_feature_brings_along_what_it_turns_on() {
        let found = of(&[("a", &[]), ("full", &["a", "other/thing", "maybe?/thing"])]).unwrap();
        assert_eq!(found, ["", "a", "a+full"]);
    }

    #[test]
    fn defaults_count_only_if_they_turn_on_more_than_other_features() {
        let found = of(&[("a", &[]), ("b", &[]), ("default", &["a"])]).unwrap();
        assert_eq!(found, ["", "a", "a+b", "b"]);
        let found = of(&[("a", &[]), ("default", &["a", "other/thing"])]).unwrap();
        assert_eq!(found, ["", "a", "a+default"]);
    }

    #[test]
    fn features_that_are_not_for_users_are_left_out() {
        assert_eq!(of(&[("_inner", &[]), ("a", &[])]).unwrap(), ["", "a"]);
    }

    #[test]
    fn too_many_features_are_refused() {
        let names: Vec<String> = (0..=FEATURES_MAX).map(|n| format!("f{n}")).collect();
        let table: Vec<(&str, &[&str])> =
            names.iter().map(|name| (name.as_str(), &[][..])).collect();
        assert_eq!(of(&table), None);
    }
}
