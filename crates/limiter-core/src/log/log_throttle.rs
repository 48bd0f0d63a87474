//! [`LogThrottle`]: log lines, each of a cause at most once a minute.

use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::log_clock::LogClock;
use crate::{Clock, Timestamp};

/// Logs each cause when it first comes up, and then at most once a minute.
///
/// Lines go to `tracing`, with the target `limiter`; in a process in which nobody has set a subscriber, to standard error.
///
/// # Examples
/// ```
/// use limiter_core::LogThrottle;
///
/// let log = LogThrottle::new();
/// for _ in 0..1000 {
///     log.error("no quota", || "the quota of the mail server is used up".to_owned()); // one line
/// }
/// ```
pub struct LogThrottle {
    clock: Arc<dyn Clock>,
    causes: Mutex<Vec<Cause>>,
}

struct Cause {
    name: String,
    logged: Timestamp,
    /// How often it has come up since, without a line.
    unlogged: u64,
}

/// The most causes that are told apart within a minute: what comes up beyond them counts as one
/// cause, so that nobody who can make causes up floods the log.
const MAX_CAUSES: usize = 32;
const OTHERS: &str = "others";

impl LogThrottle {
    /// How long a cause is not logged again.
    pub const INTERVAL: Duration = Duration::from_mins(1);

    /// Starts with nothing logged.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(LogClock))
    }

    /// The same, on a clock of your own.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            causes: Mutex::default(),
        }
    }

    /// Logs what `line` says at the level of errors, unless `cause` was logged within the last minute.
    pub fn error(&self, cause: &str, line: impl FnOnce() -> String) {
        if let Some(unlogged) = self.admit(cause) {
            write_error(&with_count(line(), unlogged));
        }
    }

    /// Logs what `line` says at the level of information, unless `cause` was logged within the last minute. Returns whether it did.
    pub fn info(&self, cause: &str, line: impl FnOnce() -> String) -> bool {
        let admitted = self.admit(cause).is_some();
        if admitted {
            write_info(&line());
        }
        admitted
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns how often `cause` came up in vain before, if it is to be logged now.
    fn admit(&self, name: &str) -> Option<u64> {
        let now = self.clock.now();
        let mut causes = self.causes();
        let name = name_of(&mut causes, name, now);
        if let Some(cause) = causes.iter_mut().find(|cause| cause.name == name) {
            // A clock that stepped back must not keep a cause silent for longer than it was meant to be.
            cause.logged = cause.logged.min(now);
            if now.since(cause.logged) < Self::INTERVAL {
                cause.unlogged += 1;
                return None;
            }
            cause.logged = now;
            return Some(std::mem::take(&mut cause.unlogged));
        }
        causes.push(Cause {
            name: name.to_owned(),
            logged: now,
            unlogged: 0,
        });
        Some(0)
    }

    fn causes(&self) -> MutexGuard<'_, Vec<Cause>> {
        self.causes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the name that a cause is known by. Where there is no room for another one, those go that
/// were logged long ago.
fn name_of<'a>(causes: &mut Vec<Cause>, name: &'a str, now: Timestamp) -> &'a str {
    if causes.len() < MAX_CAUSES || causes.iter().any(|cause| cause.name == name) {
        return name;
    }
    causes.retain(|cause| now.since(cause.logged) < LogThrottle::INTERVAL);
    if causes.len() < MAX_CAUSES {
        name
    } else {
        OTHERS
    }
}

fn with_count(mut line: String, unlogged: u64) -> String {
    if unlogged > 0 {
        let _ = write!(line, " ({unlogged} more since the last line of this kind)");
    }
    line
}

fn write_error(line: &str) {
    if tracing::dispatcher::has_been_set() {
        tracing::error!(target: "limiter", "{}", OneLine(line));
    } else {
        write_to_standard_error("error", line);
    }
}

fn write_info(line: &str) {
    if tracing::dispatcher::has_been_set() {
        tracing::info!(target: "limiter", "{}", OneLine(line));
    } else {
        write_to_standard_error("info", line);
    }
}

/// Written at once, so that no other line comes between. Nothing can be done if there is no standard error either.
fn write_to_standard_error(level: &str, line: &str) {
    let line = format!("limiter: {level}: {}\n", OneLine(line));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Prints a text on one line, whatever a server said in it.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.chars() {
            f.write_char(if char.is_control() { ' ' } else { char })?;
        }
        Ok(())
    }
}

impl Default for LogThrottle {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LogThrottle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogThrottle")
            .field("causes", &self.causes().len())
            .finish_non_exhaustive()
    }
}
