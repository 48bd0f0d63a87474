//! Versions of the compiler.

use std::{fmt, str::FromStr};

/// A compiler version such as `1.95` or `1.95.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RustVersion {
    major: u16,
    minor: u16,
    patch: u16,
}

impl RustVersion {
    /// Reads the answer of `rustc --version`.
    pub(crate) fn of_rustc(answer: &str) -> Option<Self> {
        answer.split_whitespace().nth(1)?.parse().ok()
    }

    /// Whether both are the same release apart from bug fixes.
    pub(crate) fn same_minor(self, other: Self) -> bool {
        (self.major, self.minor) == (other.major, other.minor)
    }
}

impl fmt::Display for RustVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The text is no version.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a compiler version")]
pub(crate) struct InvalidRustVersion;

impl FromStr for RustVersion {
    type Err = InvalidRustVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let release = text.split('-').next().unwrap_or(text);
        let numbers: Result<Vec<u16>, _> = release.split('.').map(str::parse).collect();
        let (major, minor, patch) = match numbers.as_deref() {
            Ok(&[major, minor]) => (major, minor, 0),
            Ok(&[major, minor, patch]) => (major, minor, patch),
            _ => return Err(InvalidRustVersion),
        };
        Ok(Self {
            major,
            minor,
            patch,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> RustVersion {
        text.parse().unwrap()
    }

    #[test]
    fn versions_are_ordered_by_number() {
        assert!(version("1.9") < version("1.10"));
        assert!(version("1.95") < version("1.95.1"));
        assert_eq!(version("1.95"), version("1.95.0"));
        assert_eq!(version("1.96.0-nightly").to_string(), "1.96.0");
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["", "1", "1.x", "stable", "1.2.3.4"] {
            assert_eq!(
                text.parse::<RustVersion>(),
                Err(InvalidRustVersion),
                "{text}"
            );
        }
    }

    #[test]
    fn the_compiler_says_its_version() {
        let answer = "rustc 1.95.2 (0123abcd 2026-04-14)\n";
        let rustc = RustVersion::of_rustc(answer).unwrap();
        assert!(rustc.same_minor(version("1.95")));
        assert!(!rustc.same_minor(version("1.96")));
        assert_eq!(RustVersion::of_rustc("rustc"), None);
    }
}
