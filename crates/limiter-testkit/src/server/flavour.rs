use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::ServerError;

/// Which server program to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flavour {
    /// `redis-server`; the environment variable `LIMITER_REDIS_SERVER` may name another path.
    Redis,
    /// `valkey-server`; the environment variable `LIMITER_VALKEY_SERVER` may name another path.
    Valkey,
    /// Redis 6.2, the oldest that the stores support: `redis-server-6.2`, or where `LIMITER_REDIS_6_2_SERVER` says.
    Redis62,
    /// Redis 8: `redis-server-8`, or where `LIMITER_REDIS_8_SERVER` says.
    Redis8,
    /// Valkey 8: `valkey-server-8`, or where `LIMITER_VALKEY_8_SERVER` says.
    Valkey8,
}

impl Flavour {
    /// Every flavour, for tests that run on all of them.
    pub const ALL: [Self; 5] = [
        Self::Redis,
        Self::Valkey,
        Self::Redis62,
        Self::Redis8,
        Self::Valkey8,
    ];

    /// Name of the program.
    #[must_use]
    pub const fn program(self) -> &'static str {
        match self {
            Self::Redis => "redis-server",
            Self::Valkey => "valkey-server",
            Self::Redis62 => "redis-server-6.2",
            Self::Redis8 => "redis-server-8",
            Self::Valkey8 => "valkey-server-8",
        }
    }

    /// The environment variable that may hold the path of the program.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Redis => "LIMITER_REDIS_SERVER",
            Self::Valkey => "LIMITER_VALKEY_SERVER",
            Self::Redis62 => "LIMITER_REDIS_6_2_SERVER",
            Self::Redis8 => "LIMITER_REDIS_8_SERVER",
            Self::Valkey8 => "LIMITER_VALKEY_8_SERVER",
        }
    }

    /// Finds the program: the environment variable, then `PATH`, then `servers/` in cargo's target directory.
    ///
    /// # Errors
    /// [`ServerError::NotFound`] if it is in none of them, or if the variable names a file that is not there.
    pub fn locate(self) -> Result<PathBuf, ServerError> {
        let not_found = ServerError::NotFound {
            program: self.program(),
            variable: self.variable(),
        };
        if let Some(path) = env::var_os(self.variable()) {
            let path = PathBuf::from(path);
            return if path.is_file() {
                Ok(path)
            } else {
                Err(not_found)
            };
        }
        let on_path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>());
        on_path
            .unwrap_or_default()
            .into_iter()
            .chain(servers_dir())
            .map(|dir| dir.join(self.program()))
            .find(|path| path.is_file())
            .ok_or(not_found)
    }
}

/// `servers/` in cargo's target directory: where the installer puts programs.
pub(super) fn servers_dir() -> Option<PathBuf> {
    target_dir().map(|target| target.join("servers"))
}

fn target_dir() -> Option<PathBuf> {
    if let Some(dir) = env::var_os("CARGO_TARGET_DIR") {
        return Some(PathBuf::from(dir));
    }
    // Tests and examples lie in `<target>/<profile>/deps` or `.../examples`; cargo tags the target directory.
    let exe = env::current_exe().ok()?;
    exe.ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").is_file())
        .map(Path::to_path_buf)
}

/// Major and minor version that the program at `path` reports.
pub(super) fn version_of(path: &Path) -> Result<(u32, u32), ServerError> {
    let doing = format!("ask {} for its version", path.display());
    let output = Command::new(path)
        .arg("--version")
        .output()
        .map_err(ServerError::io(doing))?;
    let text = String::from_utf8_lossy(&output.stdout);
    parse_version(&text).ok_or_else(|| ServerError::Protocol {
        command: "--version".to_owned(),
        reply: text.trim().to_owned(),
    })
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let version = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix("v="))?;
    let mut parts = version.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_what_either_server_prints() {
        assert_eq!(
            parse_version("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0"),
            Some((7, 0))
        );
        assert_eq!(
            parse_version("Valkey server v=9.1.2 sha=00000000:1 malloc=libc"),
            Some((9, 1))
        );
        assert_eq!(parse_version("redis-check-rdb 7.0.15"), None);
    }
}
