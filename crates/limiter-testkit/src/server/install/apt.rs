use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::{failed, run};
use crate::server::{Flavour, ServerError};

/// Links the Redis of the system's own packages into `dir`.
pub(super) fn install_redis(dir: &Path) -> Result<(), ServerError> {
    let flavour = Flavour::Redis;
    install(flavour, &["redis-tools"])?;
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

/// Installs packages of the system.
pub(super) fn install(flavour: Flavour, packages: &[&str]) -> Result<(), ServerError> {
    update(flavour)?;
    let mut install = as_root();
    install.args(["install", "-y", "--no-install-recommends"]);
    run(flavour, install.args(packages)).map(drop)
}

/// Learns which packages there are.
pub(super) fn update(flavour: Flavour) -> Result<(), ServerError> {
    run(flavour, as_root().arg("update")).map(drop)
}

fn as_root() -> Command {
    let mut command = if rustix::process::getuid().is_root() {
        Command::new("apt-get")
    } else {
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "apt-get"]);
        sudo
    };
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}
