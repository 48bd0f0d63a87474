//! Servers that the system has no packages of, from a newer release of Debian.
//!
//! Its packages want libraries that are newer than the system's. So they are unpacked into a directory of their own, with
//! every library that they need, and started through the loader among those: nothing of the system changes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{apt, failed, run};
use crate::server::{Flavour, ServerError};

const RELEASE: &str = "trixie";
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// What there is in the release: the package, and the binary in it that is a server when it is called by that name.
const SERVERS: [(Flavour, &str, &str); 2] = [
    (Flavour::Redis8, "redis-tools", "redis-check-rdb"),
    (Flavour::Valkey8, "valkey-tools", "valkey-check-rdb"),
];

/// Puts all of [`SERVERS`] into `dir`, for most of the work is the same; errors speak of `flavour`.
pub(super) fn install(flavour: Flavour, dir: &Path) -> Result<(), ServerError> {
    let io =
        |what: &str| ServerError::io(format!("{what} while {} was installed", flavour.program()));
    let scratch = tempfile::tempdir_in(dir).map_err(io("make a directory"))?;
    // Each installer has its own, and the last steps are renames: parallel installers do not see half a server.
    let root = tempfile::Builder::new().prefix(RELEASE).tempdir_in(dir);
    let root = root.map_err(io("make a directory"))?;
    for package in download(flavour, scratch.path())? {
        let mut unpack = Command::new("dpkg-deb");
        run(flavour, unpack.arg("-x").arg(package).arg(root.path()))?;
    }
    let libraries = libraries(root.path())
        .ok_or_else(|| failed(flavour, "the packages have no loader for programs"))?;
    let root = root.keep();
    for (server, _, binary) in SERVERS {
        let program = root.join("usr/bin").join(server.program());
        symlink(binary, &program).map_err(io("link it"))?;
        let starter = scratch.path().join(server.program());
        fs::write(&starter, libraries.starter_of(&program)).map_err(io("write its starter"))?;
        fs::set_permissions(&starter, fs::Permissions::from_mode(0o755))
            .map_err(io("make it executable"))?;
        fs::rename(&starter, dir.join(server.program())).map_err(io("move it into place"))?;
    }
    Ok(())
}

/// The libraries of a program, and the loader that goes with them.
struct Libraries {
    dir: PathBuf,
    loader: PathBuf,
}

impl Libraries {
    /// Returns a script that becomes `program`.
    fn starter_of(&self, program: &Path) -> String {
        let [loader, dir, program] =
            [&self.loader, &self.dir, program].map(|path| path.display().to_string());
        format!("#!/bin/sh\nexec '{loader}' --library-path '{dir}' '{program}' \"$@\"\n")
    }
}

/// Finds the libraries below `root`, in a directory that is named after the architecture.
fn libraries(root: &Path) -> Option<Libraries> {
    let dirs = fs::read_dir(root.join("usr/lib")).ok()?;
    dirs.filter_map(|dir| Some(dir.ok()?.path()))
        .find_map(|dir| {
            let files = fs::read_dir(&dir).ok()?;
            let mut files = files.filter_map(|file| Some(file.ok()?.path()));
            let is_loader = |path: &PathBuf| {
                let name = path.file_name().and_then(OsStr::to_str);
                name.is_some_and(|name| name.starts_with("ld-linux"))
            };
            let loader = files.find(is_loader)?;
            Some(Libraries { dir, loader })
        })
}

/// Downloads the packages and all that they depend on, as if nothing were installed, into `dir`.
fn download(flavour: Flavour, dir: &Path) -> Result<Vec<PathBuf>, ServerError> {
    let io =
        |what: &str| ServerError::io(format!("{what} while {} was installed", flavour.program()));
    let archives = dir.join("cache/archives");
    for needed in [&dir.join("state/lists/partial"), &archives.join("partial")] {
        fs::create_dir_all(needed).map_err(io("make a directory"))?;
    }
    let source = format!(
        "deb [target=Packages signed-by={KEYS}] {} {RELEASE} main\n",
        repository(flavour)?
    );
    fs::write(dir.join("sources.list"), source).map_err(io("name the release"))?;
    fs::write(dir.join("status"), "").map_err(io("pretend that nothing is installed"))?;
    let apt_get = || {
        let mut apt_get = Command::new("apt-get");
        for (option, path) in [
            ("Dir::State", dir.join("state")),
            ("Dir::State::status", dir.join("status")),
            ("Dir::Cache", dir.join("cache")),
            ("Dir::Etc::SourceList", dir.join("sources.list")),
            ("Dir::Etc::SourceParts", PathBuf::from("/dev/null")),
        ] {
            let setting = format!("{option}={}", path.display());
            apt_get.arg("--option").arg(setting);
        }
        // The user that apt would change to may not look into the directory.
        apt_get.args(["--option", "APT::Sandbox::User=root"]);
        apt_get
    };
    run(flavour, apt_get().arg("update"))?;
    let mut fetch = apt_get();
    fetch.args([
        "install",
        "--download-only",
        "-y",
        "--no-install-recommends",
    ]);
    run(flavour, fetch.args(SERVERS.map(|(_, package, _)| package)))?;
    let files = fs::read_dir(&archives).map_err(io("list the packages"))?;
    let files = files.filter_map(|file| Some(file.ok()?.path()));
    Ok(files
        .filter(|path| path.extension() == Some(OsStr::new("deb")))
        .collect())
}

/// Returns where the system gets its own packages of Debian from.
fn repository(flavour: Flavour) -> Result<String, ServerError> {
    let ask = || {
        let mut ask = Command::new("apt-get");
        ask.args(["indextargets", "--format", "$(REPO_URI)"]);
        let said = run(
            flavour,
            ask.args(["Created-By: Packages", "Origin: Debian", "Label: Debian"]),
        )?;
        Ok::<_, ServerError>(said.lines().next().map(str::to_owned))
    };
    if let Some(known) = ask()? {
        return Ok(known);
    }
    // A fresh system does not know whose packages it gets before it has asked.
    apt::update(flavour)?;
    ask()?.ok_or_else(|| failed(flavour, "this system does not get its packages from Debian"))
}
