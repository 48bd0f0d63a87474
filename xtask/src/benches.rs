//! Measurements: the quick figures and the full benchmarks.

use crate::{
    problem::Problem,
    process::{cargo, run},
};

/// The area that the stores' tests measure, for they have the servers' clients at hand.
const SESSIONS: &str = "sessions";

/// Measures every goal, or those of the areas that are named. Fails if it cannot measure, not if a goal falls short.
pub(crate) fn figures(areas: &[String]) -> Result<(), Problem> {
    let (sessions, others): (Vec<&String>, Vec<_>) =
        areas.iter().partition(|area| *area == SESSIONS);
    if areas.is_empty() || !others.is_empty() {
        let mut command = cargo(["run", "--release", "--package", "limiter-benches"]);
        run(command.args(["--bin", "figures", "--"]).args(others))?;
    }
    if areas.is_empty() || !sessions.is_empty() {
        let mut command = cargo(["run", "--release", "--package", "limiter-store-tests"]);
        run(command.args(["--example", "session_figures"]))?;
    }
    Ok(())
}

/// Runs all benchmarks, or the one called `name`.
pub(crate) fn bench(name: Option<&str>) -> Result<(), Problem> {
    let mut command = cargo(["bench", "--package", "limiter-benches"]);
    match name {
        Some(name) => command.args(["--bench", name]),
        None => command.arg("--benches"),
    };
    run(&mut command)
}
