//! Every example of the workspace builds as its users build it, and runs to its end.

use std::{collections::BTreeMap, env::consts::EXE_SUFFIX, process::Command};

use crate::{
    problem::Problem,
    process::{cargo, run},
    workspace::{Package, Target, Workspace},
};

pub(crate) fn examples(workspace: &Workspace) -> Result<(), Problem> {
    for package in workspace.members() {
        check(package)?;
    }
    // As the tests have built them, in one go with all features: to build each with its own takes longer than all of them run.
    run(&mut cargo([
        "test",
        "--workspace",
        "--all-features",
        "--no-run",
    ]))?;
    let folder = workspace.target_directory.join("debug/examples");
    let mut examples = workspace.members().flat_map(of).peekable();
    if examples.peek().is_none() {
        return Err(Problem::CannotRun("no package has an example".to_owned()));
    }
    for example in examples {
        let name = format!("{}{EXE_SUFFIX}", example.name);
        run(&mut Command::new(folder.join(name)))?;
    }
    Ok(())
}

/// Checks the examples of a package, each with no more features than it asks for.
fn check(package: &Package) -> Result<(), Problem> {
    let mut by_features: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for example in of(package) {
        let names = by_features.entry(example.required_features.join(","));
        names.or_default().push(&example.name);
    }
    for (features, names) in by_features {
        let mut command = cargo(["check", "--package", &package.name]);
        command.args(names.into_iter().flat_map(|name| ["--example", name]));
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
