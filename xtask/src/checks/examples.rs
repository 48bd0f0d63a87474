//! Every example of the workspace builds as its users build it, and runs to its end.

use std::{collections::BTreeSet, env::consts::EXE_SUFFIX, process::Command};

use crate::{
    problem::Problem,
    process::{cargo, run},
    workspace::{Package, Target, Workspace},
};

pub(crate) fn examples(workspace: &Workspace) -> Result<(), Problem> {
    let packages = || {
        workspace
            .members()
            .filter(|package| !of(package).is_empty())
    };
    if packages().next().is_none() {
        return Err(Problem::CannotRun("no package has an example".to_owned()));
    }
    for package in packages() {
        check(package)?;
    }
    // As the tests have built them: to build each with its own features takes several times as long as all of them run.
    run(&mut cargo([
        "build",
        "--workspace",
        "--all-features",
        "--examples",
    ]))?;
    let folder = workspace.target_directory.join("debug/examples");
    for example in packages().flat_map(of) {
        let name = format!("{}{EXE_SUFFIX}", example.name);
        run(&mut Command::new(folder.join(name)))?;
    }
    Ok(())
}

/// Builds the examples of a package with no more features than they ask for.
fn check(package: &Package) -> Result<(), Problem> {
    let features = of(package).into_iter();
    let features: BTreeSet<_> = features
        .flat_map(|example| &example.required_features)
        .map(String::as_str)
        .collect();
    let mut command = cargo(["check", "--package", &package.name, "--examples"]);
    if !features.is_empty() {
        command.args(["--features", &Vec::from_iter(features).join(",")]);
    }
    run(&mut command)
}

fn of(package: &Package) -> Vec<&Target> {
    let is_example = |target: &&Target| target.kind.iter().any(|kind| kind == "example");
    package.targets.iter().filter(is_example).collect()
}
