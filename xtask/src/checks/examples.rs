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
    let mut found = false;
    for package in workspace.members() {
        for example in of(package) {
            found = true;
            run(&mut if example.test {
                // The tests have built its tests, and not itself.
                command(
                    "run",
                    package,
                    &example.required_features.join(","),
                    [example],
                )
            } else {
                Command::new(folder.join(format!("{}{EXE_SUFFIX}", example.name)))
            })?;
        }
    }
    if found {
        return Ok(());
    }
    Err(Problem::CannotRun("no package has an example".to_owned()))
}

/// Checks the examples of a package, each with no more features than it asks for.
fn check(package: &Package) -> Result<(), Problem> {
    let mut by_features: BTreeMap<String, Vec<&Target>> = BTreeMap::new();
    for example in of(package) {
        let examples = by_features.entry(example.required_features.join(","));
        examples.or_default().push(example);
    }
    for (features, examples) in by_features {
        run(&mut command("check", package, &features, examples))?;
    }
    Ok(())
}

fn command<'a>(
    verb: &str,
    package: &Package,
    features: &str,
    examples: impl IntoIterator<Item = &'a Target>,
) -> Command {
    let mut command = cargo([verb, "--package", &package.name]);
    for example in examples {
        command.args(["--example", &example.name]);
    }
    if !features.is_empty() {
        command.args(["--features", features]);
    }
    command
}

fn of(package: &Package) -> impl Iterator<Item = &Target> {
    let is_example = |target: &&Target| target.kind.iter().any(|kind| kind == "example");
    package.targets.iter().filter(is_example)
}
