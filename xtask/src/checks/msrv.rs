//! The oldest compiler that we promise (`rust-version`) builds what we publish.

use std::process::Command;

use crate::{
    problem::Problem,
    process::{cargo, read, run},
    rust_version::RustVersion,
    workspace::{Package, Workspace},
};

pub(crate) fn msrv(workspace: &Workspace) -> Result<(), Problem> {
    let promised = promised(workspace)?;
    Problem::unless_empty(newer_dependencies(workspace, promised))?;
    // One by one: together they would lend each other features, and share nothing with what the step `features` has built.
    for package in workspace.crates() {
        let mut command = cargo_of(promised)?;
        run(command.args(["check", "--all-features", "--package", &package.name]))?;
    }
    Ok(())
}

/// The one `rust-version` of all published packages.
fn promised(workspace: &Workspace) -> Result<RustVersion, Problem> {
    let mut versions: Vec<RustVersion> = workspace.published().filter_map(stated).collect();
    versions.dedup();
    match versions.as_slice() {
        [version]
            if workspace
                .published()
                .all(|package| stated(package).is_some()) =>
        {
            Ok(*version)
        }
        _ => Err(Problem::CannotRun(
            "every published crate must state the workspace's rust-version".to_owned(),
        )),
    }
}

fn stated(package: &Package) -> Option<RustVersion> {
    package.rust_version.as_ref()?.parse().ok()
}

fn newer_dependencies(workspace: &Workspace, promised: RustVersion) -> Vec<String> {
    let mut findings: Vec<String> = workspace
        .published()
        .flat_map(|package| workspace.built_from(package))
        .filter_map(|dependency| {
            let needed = stated(dependency).filter(|needed| *needed > promised)?;
            let Package { name, version, .. } = dependency;
            Some(format!(
                "{name} {version} needs Rust {needed}; we promise {promised}"
            ))
        })
        .collect();
    findings.sort();
    findings.dedup();
    findings
}

/// The running cargo if it is of the promised release, or else that of a rustup toolchain, installed if need be.
fn cargo_of(promised: RustVersion) -> Result<Command, Problem> {
    let running = read(Command::new("rustc").arg("--version"))?;
    if RustVersion::of_rustc(&running).is_some_and(|running| running.same_minor(promised)) {
        return Ok(cargo([]));
    }
    let installed = || read(Command::new("rustup").args(["toolchain", "list"]));
    let mut toolchain = pick(&installed()?, promised);
    if toolchain.is_none() {
        let version = promised.to_string();
        let mut install = Command::new("rustup");
        install.args(["toolchain", "install", &version, "--profile", "minimal"]);
        run(&mut install).map_err(|problem| {
            Problem::CannotRun(format!(
                "Rust {version} is needed and could not be installed ({problem}); install that toolchain with rustup"
            ))
        })?;
        toolchain = pick(&installed()?, promised);
    }
    let toolchain = toolchain.ok_or_else(|| {
        Problem::CannotRun(format!(
            "rustup does not list a toolchain for Rust {promised}"
        ))
    })?;
    let mut command = Command::new("rustup");
    command.args(["run", &toolchain, "cargo"]);
    Ok(command)
}

/// The name of the first toolchain of the `promised` release in the answer of `rustup toolchain list`.
fn pick(list: &str, promised: RustVersion) -> Option<String> {
    list.lines()
        .filter_map(|line| line.split_whitespace().next())
        .find(|name| {
            let version = name
                .split('-')
                .next()
                .and_then(|version| version.parse().ok());
            version.is_some_and(|version: RustVersion| version.same_minor(promised))
        })
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "stable-x86_64-unknown-linux-gnu (active, default)\n\
                        1.94.1-x86_64-unknown-linux-gnu\n\
                        1.95.0-x86_64-unknown-linux-gnu\n\
                        1.96-x86_64-unknown-linux-gnu\n";

    #[test]
    fn the_toolchain_of_the_promised_release_is_picked() {
        let pick = |version: &str| pick(LIST, version.parse().unwrap());
        assert_eq!(pick("1.95").unwrap(), "1.95.0-x86_64-unknown-linux-gnu");
        assert_eq!(pick("1.96").unwrap(), "1.96-x86_64-unknown-linux-gnu");
        assert_eq!(pick("1.9"), None);
    }
}
