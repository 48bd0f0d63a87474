//! Every example of the workspace runs to its end.

use crate::{
    problem::Problem,
    process::{cargo, run},
    workspace::Workspace,
};

pub(crate) fn examples(workspace: &Workspace) -> Result<(), Problem> {
    let mut found = false;
    for package in workspace.members() {
        let is_example = |kind: &String| kind == "example";
        for target in &package.targets {
            if !target.kind.iter().any(is_example) {
                continue;
            }
            found = true;
            // Not in release: the tests have built nearly everything there is to build.
            let mut command = cargo(["run", "--package", &package.name]);
            command.args(["--example", &target.name]);
            if !target.required_features.is_empty() {
                command.args(["--features", &target.required_features.join(",")]);
            }
            run(&mut command)?;
        }
    }
    if found {
        return Ok(());
    }
    Err(Problem::CannotRun("no package has an example".to_owned()))
}
