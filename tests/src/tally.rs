//! [`Tally`]: an observer that counts.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use limiter_core::{BreakerState, Decision, Observer, StoreError};

/// Counts what it sees, by name.
#[derive(Debug, Default)]
pub struct Tally {
    seen: Mutex<BTreeMap<String, u32>>,
}

impl Tally {
    /// Returns how often `what` was seen: the source of a decision such as `fail_open`, the kind of a store's failure such
    /// as `unavailable`, or `decisions` for all decisions.
    pub fn of(&self, what: &str) -> u32 {
        self.seen().get(what).copied().unwrap_or(0)
    }

    fn count(&self, what: &str) {
        *self.seen().entry(what.to_owned()).or_default() += 1;
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<String, u32>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Tally {
    fn decided(&self, decision: &Decision) {
        self.count("decisions");
        self.count(decision.source().as_str());
    }

    fn store_failed(&self, error: &StoreError) {
        self.count(error.kind());
    }

    fn breaker_changed(&self, state: BreakerState) {
        self.count(&format!("{state:?}"));
    }
}
