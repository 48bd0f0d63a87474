//! The longest pause: many keys pass through a store that has room for a tenth of them.

use std::time::Duration;

use limiter_core::{Cost, Key, Plan};
use limiter_memory::MemoryStore;

use crate::workload::key;

/// How many keys pass through.
const PASSING: usize = 10_000_000;
const ROOM: usize = 1_000_000;
/// Calls are looked at in spans of so many.
const SPAN: usize = 1_000;

/// Returns the longest call while ten million keys pass.
///
/// A call from which the system took the core away is no pause of the store: spans of a thousand calls in which that
/// happened are left out. What a hypervisor takes is not told; but a true pause shows in every round, so the shortest of
/// the rounds' longest calls is returned.
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
    let mut interruptions = interruptions_so_far();
    for first in (0..PASSING).step_by(SPAN) {
        let mut longest_of_span = Duration::ZERO;
        for nth in first..first + SPAN {
            let key = Key::new(key(nth)).unwrap();
            let start = clock.now();
            let _ = std::hint::black_box(store.try_acquire_sync(&key, &plans, Cost::ONE));
            longest_of_span = longest_of_span.max(clock.now().duration_since(start));
        }
        let so_far = interruptions_so_far();
        if so_far == interruptions {
            longest = longest.max(longest_of_span);
        }
        interruptions = so_far;
    }
    longest
}

/// Returns how often this thread was made to leave its core, or `None` where the system does not tell.
fn interruptions_so_far() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}
