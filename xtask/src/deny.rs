//! `cargo xtask deny`: what we depend on, by licence, origin and known weakness.

use crate::{
    problem::Problem,
    process::{cargo, run, succeeds},
};

/// Checks all dependencies against `deny.toml`.
pub(crate) fn check() -> Result<(), Problem> {
    if !succeeds(&mut cargo(["deny", "--version"])) {
        run(&mut cargo(["install", "cargo-deny", "--locked"]))?;
    }
    run(&mut cargo([
        "deny",
        "--workspace",
        "check",
        "licenses",
        "bans",
        "sources",
    ]))?;
    if let Err(problem) = run(&mut cargo(["deny", "--workspace", "fetch", "db"])) {
        println!("advisories were NOT checked, their database could not be fetched: {problem}");
        return Ok(());
    }
    run(&mut cargo([
        "deny",
        "--workspace",
        "check",
        "--disable-fetch",
        "advisories",
    ]))
}
