//! Every example of the workspace runs to its end, and builds with no more features than it asks for.

use std::{collections::BTreeMap, env::consts::EXE_SUFFIX, process::Command};

use super::WHOLE;
use crate::{
    problem::Problem,
    process::{cargo, run},
    workspace::{Package, Target, Workspace},
};

/// Runs all examples. They are built with the features of the whole workspace: to build each with its own takes longer than all of
/// them run.
pub(crate) fn examples(workspace: &Workspace) -> Result<(), Problem> {
    run(cargo(["build", "--examples"]).args(WHOLE))?;
    let mut found = false;
    for example in workspace.members().flat_map(of) {
        found = true;
        run(&mut built(workspace, &example.name))?;
    }
    if found {
        return Ok(());
    }
    Err(Problem::CannotRun("no package has an example".to_owned()))
}

/// An example that was built.
pub(super) fn built(workspace: &Workspace, name: &str) -> Command {
    let folder = workspace.target_directory.join("debug/examples");
    Command::new(folder.join(format!("{name}{EXE_SUFFIX}")))
}

/// Checks the examples of a package, each with no more features than it asks for.
pub(super) fn check_alone(package: &Package) -> Result<(), Problem> {
    let mut by_features: BTreeMap<String, Vec<&Target>> = BTreeMap::new();
    for example in of(package) {
        let examples = by_features.entry(example.required_features.join(","));
        examples.or_default().push(example);
    }
    for (features, examples) in by_features {
        let mut command = cargo(["check", "--quiet", "--package", &package.name]);
        for example in examples {
            command.args(["--example", &example.name]);
        }
        if !features.is_empty() {
            command.args(["--features", &features]);
        }
        run(&mut command)?;
    }
    Ok(())
}

fn of(package: &Package) -> impl Iterator<Item = &Target> {
    let is_example = |target: &&Target| target.kind.iter().any(|kind| kind == "example");
    package.targets.iter().filter(is_example)
}
