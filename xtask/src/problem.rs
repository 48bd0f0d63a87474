//! Why a command did not succeed.

use std::{io, path::PathBuf, process::ExitStatus};

/// Why a command or a step did not succeed, in words that say what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("`cargo xtask {0}` is not a command; `cargo xtask --help` lists them")]
    Usage(String),
    #[error("`{command}` could not be started: {source}")]
    NotStarted { command: String, source: io::Error },
    #[error("`{command}` failed: {status}")]
    Failed { command: String, status: ExitStatus },
    #[error("`{command}` printed what is not understood: {reason}")]
    NotUnderstood { command: String, reason: String },
    #[error("{path} cannot be read: {reason}", path = path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("{} found:\n  {}", .0.len(), .0.join("\n  "))]
    Findings(Vec<String>),
    #[error("{0}")]
    CannotRun(String),
}

impl Problem {
    /// Fails with `findings` unless there are none.
    pub(crate) fn unless_empty(findings: Vec<String>) -> Result<(), Self> {
        if findings.is_empty() {
            Ok(())
        } else {
            Err(Self::Findings(findings))
        }
    }
}
