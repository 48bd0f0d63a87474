//! Measurements: the quick figures and the full benchmarks.

use crate::{
    problem::Problem,
    process::{cargo, run},
};

/// Measures every goal. Fails if it cannot measure, not if a goal falls short.
pub(crate) fn figures(options: &[String]) -> Result<(), Problem> {
    let mut command = cargo(["run", "--release", "--package", "limiter-benches"]);
    command.args(["--bin", "figures", "--"]).args(options);
    run(&mut command)
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
