//! The longest pause: many keys pass through a store that has room for a tenth of them.

use std::time::Duration;

use limiter_core::{Cost, Key, Plan};
use limiter_memory::MemoryStore;

use crate::workload::key;

/// How many keys pass through.
const PASSING: usize = 10_000_000;
const ROOM: usize = 1_000_000;

/// The longest call while ten million keys pass: a true pause shows in every round, a moment in which the system had
/// something else to do does not, so the shortest of the rounds' longest is told.
#[must_use]
pub fn longest(limit: &str, rounds: usize) -> Duration {
    let longest = (0..rounds).map(|_| round(limit)).min();
    longest.unwrap_or_default()
}

#[expect(clippy::unwrap_used, reason = "the numbers are allowed ones")]
fn round(limit: &str) -> Duration {
    let store = MemoryStore::builder().max_keys(ROOM).build().unwrap();
    let plans = [Plan::new("gold", limit).unwrap()];
    let clock = quanta::Clock::new();
    let mut longest = Duration::ZERO;
    for nth in 0..PASSING {
        let key = Key::new(key(nth)).unwrap();
        let start = clock.now();
        let _ = std::hint::black_box(store.try_acquire_sync(&key, &plans, Cost::ONE));
        longest = longest.max(start.elapsed());
    }
    longest
}
