//! Dependencies between our crates point inwards, and nothing impure reaches the core.

use crate::{
    problem::Problem,
    workspace::{Package, Workspace},
};

/// Which of our crates each crate may be built from. A new arrow is an architecture change: ARCHITECTURE.md argues it.
const ALLOWED: &[(&str, &[&str])] = &[
    ("limiter-core", &[]),
    ("limiter-sessions", &["limiter-core"]),
    ("limiter-lua", &["limiter-core", "limiter-sessions"]),
    ("limiter-memory", &["limiter-core", "limiter-sessions"]),
    (
        "limiter-redis",
        &["limiter-core", "limiter-lua", "limiter-sessions"],
    ),
    (
        "limiter-fred",
        &["limiter-core", "limiter-lua", "limiter-sessions"],
    ),
    ("limiter-axum-macros", &[]),
    ("limiter-axum", &["limiter-core", "limiter-axum-macros"]),
    (
        "limiter-testkit",
        &["limiter-core", "limiter-lua", "limiter-sessions"],
    ),
];

/// Puts the others together, so it may depend on any of them.
const COMPOSITION_ROOT: &str = "limiter-cli";

/// Runtimes, sockets, stores, clocks and random sources: none of them is in the core, nor in anything it is built from.
const IMPURE: &[&str] = &[
    "async-std",
    "axum",
    "chrono",
    "fastrand",
    "fred",
    "getrandom",
    "hyper",
    "jiff",
    "mio",
    "quanta",
    "rand",
    "rand_core",
    "redis",
    "reqwest",
    "smol",
    "socket2",
    "time",
    "tokio",
    "tower",
    "uuid",
];

pub(crate) fn arrows(workspace: &Workspace) -> Result<(), Problem> {
    let mut findings = Vec::new();
    for package in workspace.crates() {
        let ours = package
            .build_dependencies()
            .filter(|dependency| dependency.path.is_some());
        findings.extend(forbidden(
            &package.name,
            ours.map(|dependency| dependency.name.as_str()),
        ));
        if package.name == "limiter-core" {
            findings.extend(impure(&workspace.built_from(package)));
        }
    }
    Problem::unless_empty(findings)
}

fn forbidden<'a>(from: &str, to: impl Iterator<Item = &'a str>) -> Vec<String> {
    if from == COMPOSITION_ROOT {
        return Vec::new();
    }
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == from) else {
        return vec![format!(
            "{from} has no row in the table of arrows ({})",
            file!()
        )];
    };
    to.filter(|name| !allowed.contains(name))
        .map(|name| format!("{from} must not depend on {name}"))
        .collect()
}

fn impure(dependencies: &[&Package]) -> Vec<String> {
    dependencies
        .iter()
        .filter(|package| IMPURE.contains(&package.name.as_str()))
        .map(|package| format!("limiter-core must not be built from {}", package.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(from: &str, to: &[&str]) -> usize {
        forbidden(from, to.iter().copied()).len()
    }

    #[test]
    fn arrows_to_the_core_are_allowed() {
        assert_eq!(count("limiter-memory", &["limiter-core"]), 0);
        assert_eq!(count("limiter-redis", &["limiter-core", "limiter-lua"]), 0);
        assert_eq!(count("limiter-core", &[]), 0);
    }

    #[test]
    fn arrows_outwards_and_between_adapters_are_not() {
        assert_eq!(count("limiter-core", &["limiter-memory"]), 1);
        assert_eq!(
            count("limiter-memory", &["limiter-core", "limiter-redis"]),
            1
        );
        assert_eq!(count("limiter-axum", &["limiter-memory", "limiter-lua"]), 2);
        assert_eq!(count("limiter-axum-macros", &["limiter-core"]), 1);
    }

    #[test]
    fn the_binary_may_use_any_crate() {
        assert_eq!(count("limiter-cli", &["limiter-redis", "limiter-axum"]), 0);
    }

    #[test]
    fn a_crate_without_a_row_is_a_finding() {
        assert_eq!(count("limiter-etcd", &["limiter-core"]), 1);
    }

    #[test]
    fn the_table_has_no_cycle_and_no_unknown_name() {
        for (position, (from, allowed)) in ALLOWED.iter().enumerate() {
            for to in *allowed {
                let target = ALLOWED.iter().position(|(name, _)| name == to);
                assert!(
                    target.is_some_and(|target| target < position),
                    "{from} -> {to}"
                );
            }
        }
    }
}
