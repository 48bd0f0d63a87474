//! [`FailureLog`]: the lines about a store that fails.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::LogThrottle;
use crate::{CircuitOpen, Clock, StoreError, Timestamp};

/// Logs that a store fails, why, and what becomes of requests meanwhile; and that it answers again.
///
/// Every orchestrator has one, so that a store that fails is never silent: a line at the level of errors for each cause, and one at
/// the level of information once the store has answered for a second without a failure; each at most once a minute. A cause is a
/// [kind](StoreError::kind) of failure, that a circuit breaker is open, or what is wrong with a store that is set up wrongly. Lines go where [`LogThrottle`] says,
/// and hold no key: errors have none.
///
/// # Examples
/// ```
/// use limiter_core::{Charge, FailureLog, StoreError};
///
/// let log = FailureLog::new();
/// let away = StoreError::unavailable(Charge::Impossible, "connection refused");
/// log.failed(&away, "requests pass unlimited"); // "store is unavailable: ...: connection refused; requests pass unlimited"
/// log.answered();
/// ```
#[derive(Debug)]
pub struct FailureLog {
    throttle: LogThrottle,
    /// Whether it was logged that the store fails, and not yet that it answers again.
    failing: AtomicBool,
    spell: Mutex<Option<Spell>>,
}

/// A time in which the store failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spell {
    began: Timestamp,
    last: Timestamp,
    failures: u64,
}

/// How long a store answers without a failure until that is logged: one that fails for some callers does not come and go.
const SETTLED: Duration = Duration::from_secs(1);

impl FailureLog {
    /// Starts with nothing logged.
    #[must_use]
    pub fn new() -> Self {
        Self::of(LogThrottle::new())
    }

    /// The same, on a clock of your own.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self::of(LogThrottle::with_clock(clock))
    }

    fn of(throttle: LogThrottle) -> Self {
        Self {
            throttle,
            failing: AtomicBool::new(false),
            spell: Mutex::new(None),
        }
    }

    /// Notes that the store failed; `consequence` says what becomes of requests then. A call that the store refuses to look at is no
    /// failure of the store.
    #[cold]
    pub fn failed(&self, error: &StoreError, consequence: &str) {
        if matches!(error, StoreError::Request(_)) {
            return;
        }
        self.note(self.throttle.now());
        self.throttle.error(cause_of(error), || {
            format!("{}; {consequence}", with_causes(error))
        });
    }

    /// Notes that the local store failed as well, which was to stand in: requests are turned away then.
    #[cold]
    pub fn local_failed(&self, error: &StoreError) {
        if matches!(error, StoreError::Request(_)) {
            return;
        }
        let cause = format!("local store: {}", cause_of(error));
        self.throttle.error(&cause, || {
            let text = with_causes(error);
            format!("the local {text}; requests that it was to stand in for are turned away")
        });
    }

    /// Notes that the store answered.
    #[inline]
    pub fn answered(&self) {
        if self.is_failing() {
            self.settle();
        }
    }

    /// Returns whether the store failed, and has not answered for a second since.
    #[inline]
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    fn note(&self, now: Timestamp) {
        let mut spell = self.spell();
        let spell = spell.get_or_insert(Spell {
            began: now,
            last: now,
            failures: 0,
        });
        spell.last = now;
        spell.failures += 1;
        self.failing.store(true, Ordering::Relaxed);
    }

    #[cold]
    fn settle(&self) {
        let now = self.throttle.now();
        let Some(ended) = self.ended(now) else { return };
        // Whoever writes the line has nobody wait, and may meet a failure of this very store: no
        // lock is held.
        let logged = self.throttle.info("answers again", || {
            let (time, failures) = (ended.last.since(ended.began), ended.failures);
            format!("store answers again, after {failures} failures in {time:.1?}")
        });
        let mut spell = self.spell();
        if logged && *spell == Some(ended) {
            *spell = None;
            self.failing.store(false, Ordering::Relaxed);
        }
    }

    /// Returns the time in which the store failed, if it is over.
    fn ended(&self, now: Timestamp) -> Option<Spell> {
        // Who answers many callers at once has them not wait for each other here: one of the next
        // ones looks.
        let spell = (*self.spell.try_lock().ok()?)?;
        (now.since(spell.last) >= SETTLED).then_some(spell)
    }

    fn spell(&self) -> MutexGuard<'_, Option<Spell>> {
        self.spell.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what tells causes apart. What clients say is not it: it may differ from call to call. That a circuit breaker is open is a
/// cause of its own, so that it does not take the place of what the store's client says.
fn cause_of(error: &StoreError) -> &str {
    match error {
        StoreError::Misconfigured { advice, .. } => advice,
        StoreError::Unavailable { cause, .. } if cause.is::<CircuitOpen>() => "circuit_open",
        error => error.kind(),
    }
}

/// Writes an error and all its causes.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

impl Default for FailureLog {
    fn default() -> Self {
        Self::new()
    }
}
