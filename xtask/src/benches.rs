//! Measurements: the quick figures and the full benchmarks.

use crate::{
    problem::Problem,
    process::{cargo, run},
    workspace::Workspace,
};

/// The area that the stores' tests measure, for they have the servers' clients at hand.
const SESSIONS: &str = "sessions";
/// The area that a package outside of the workspace measures.
const LIMITADOR: &str = "limitador";

/// Measures every goal, or those of the areas that are named. Fails if it cannot measure, not if a goal falls short.
pub(crate) fn figures(areas: &[String]) -> Result<(), Problem> {
    let named = |area: &str| areas.is_empty() || areas.iter().any(|name| name == area);
    let others = areas
        .iter()
        .filter(|area| ![SESSIONS, LIMITADOR].contains(&area.as_str()));
    if areas.is_empty() || others.clone().next().is_some() {
        let mut command = cargo(["run", "--release", "--package", "limiter-benches"]);
        run(command.args(["--bin", "figures", "--"]).args(others))?;
    }
    if named(SESSIONS) {
        let mut command = cargo(["run", "--release", "--package", "limiter-store-tests"]);
        run(command.args(["--example", "session_figures"]))?;
    }
    // The last: it is the one that a machine may not be able to build.
    if named(LIMITADOR) {
        limitador()?;
    }
    Ok(())
}

/// In the target folder of the workspace, for the servers are there.
fn limitador() -> Result<(), Problem> {
    eprintln!(
        "limitador is built first, once: some minutes, and it needs OpenSSL's headers and pkg-config"
    );
    let workspace = Workspace::load()?;
    let mut command = cargo(["run", "--release", "--manifest-path"]);
    command.arg(workspace.limitador());
    run(command.arg("--target-dir").arg(&workspace.target_directory))
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
