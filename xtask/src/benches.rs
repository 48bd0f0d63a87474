//! Measurements: the quick figures and the full benchmarks.

use crate::{
    problem::Problem,
    process::{cargo, run},
};

/// Measures every goal. Fails if it cannot measure, not if a goal falls short.
pub(crate) fn figures(options: &[String]) -> Result<(), Problem> {
    let mut command = cargo(["run", "--release", "--package", "limiter-benches"]);
    command.args(["--bin", "figures", "--"]).args(options);
    run(&mut command)?;
    // Options choose among the figures of the benchmarks.
    if !options.is_empty() {
        return Ok(());
    }
    let mut command = cargo(["run", "--release", "--package", "limiter-store-tests"]);
    run(command.args(["--example", "session_figures"]))
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
