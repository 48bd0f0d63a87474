//! What `cargo xtask test` checks. Those that only start one cargo command stand here, the others in their own files.

mod arrows;
mod examples;
mod features;
mod msrv;
mod package;
mod source;

use std::{env, process::Command};

pub(crate) use self::{
    arrows::arrows, examples::examples, features::features, msrv::msrv, package::package,
    source::source,
};
use crate::{
    problem::Problem,
    process::{cargo, run, succeeds},
    workspace::Workspace,
};

/// Succeeds only if what it checks holds and could be checked.
pub(crate) type Check = fn(&Workspace) -> Result<(), Problem>;

pub(crate) fn formatting(workspace: &Workspace) -> Result<(), Problem> {
    ensure_component("rustfmt", "fmt")?;
    run(&mut cargo(["fmt", "--all", "--check"]))?;
    let mut command = cargo(["fmt", "--all", "--check", "--manifest-path"]);
    run(command.arg(workspace.limitador()))
}

/// With the features of the whole workspace, so that each dependency is built once.
const WHOLE: [&str; 2] = ["--workspace", "--all-features"];

pub(crate) fn clippy(_: &Workspace) -> Result<(), Problem> {
    ensure_component("clippy", "clippy")?;
    let mut command = cargo(["clippy", "--all-targets"]);
    run(command.args(WHOLE).args(["--", "-D", "warnings"]))
}

pub(crate) fn documentation(_: &Workspace) -> Result<(), Problem> {
    let mut command = cargo(["doc", "--no-deps"]);
    run(command.args(WHOLE).env("RUSTDOCFLAGS", "-D warnings"))
}

pub(crate) fn build(_: &Workspace) -> Result<(), Problem> {
    run(cargo(["test", "--no-run"]).args(WHOLE))?;
    run(cargo(["build", "--examples"]).args(WHOLE))
}

/// Installs the servers that the tests start, where they are missing.
pub(crate) fn servers(workspace: &Workspace) -> Result<(), Problem> {
    let installer = "install_servers";
    run(cargo(["build", "--example", installer]).args(WHOLE))?;
    run(&mut examples::built(workspace, installer))
}

pub(crate) fn tests(_: &Workspace) -> Result<(), Problem> {
    run(cargo(["test", "--no-fail-fast"]).args(WHOLE))
}

/// In a target folder of its own: its flags would otherwise make cargo build everything anew, twice.
pub(crate) fn interleavings(workspace: &Workspace) -> Result<(), Problem> {
    let flags = [
        env::var("RUSTFLAGS").unwrap_or_default(),
        "--cfg shuttle".to_owned(),
    ];
    let mut command = cargo(["test", "--package", "limiter-interleavings"]);
    command
        .args(["--test", "memory", "--target-dir"])
        .arg(workspace.target_directory.join("shuttle"))
        // It would win over RUSTFLAGS, and without the flag there is no test to run.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", flags.join(" ").trim());
    run(&mut command)
}

/// Installs a part of the toolchain if `cargo <subcommand>` is missing.
fn ensure_component(component: &str, subcommand: &str) -> Result<(), Problem> {
    if succeeds(&mut cargo([subcommand, "--version"])) {
        return Ok(());
    }
    run(Command::new("rustup").args(["component", "add", component]))
}
