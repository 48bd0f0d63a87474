//! [`Pauses`]: the longest call while many keys pass through a store that has room for a tenth of them.

use std::time::Duration;

use limiter_core::{Cost, Key, Plan};
use limiter_memory::MemoryStore;

use crate::workload::key;

/// How many keys pass through.
const PASSING: usize = 10_000_000;
const ROOM: usize = 1_000_000;
/// Calls are looked at in spans of so many.
const SPAN: usize = 1_000;

/// The longest call of a round, and the longest step of a loop that does nothing for as long.
///
/// A call from which the system took the core away is no pause of the store: spans of a thousand calls in which that happened
/// are left out. What a hypervisor takes is not told, so the idle loop says what to expect of the machine alone.
#[derive(Clone, Copy)]
pub struct Pauses {
    /// The longest call while ten million keys pass: the median of the rounds.
    pub store: Duration,
    /// The same of the round that the machine disturbed least.
    pub store_at_best: Duration,
    /// The longest step of the idle loop: the median of the rounds.
    pub machine: Duration,
}

impl Pauses {
    /// Measures so many rounds.
    #[must_use]
    pub fn measure(limit: &str, rounds: usize) -> Self {
        let rounds = (0..rounds).map(|_| round(limit));
        let (store, machine): (Vec<_>, Vec<_>) = rounds.unzip();
        Self {
            store_at_best: store.iter().copied().min().unwrap_or_default(),
            store: median(store),
            machine: median(machine),
        }
    }
}

/// Returns the longest call of a round, and the longest step of the idle loop.
#[expect(clippy::unwrap_used, reason = "the numbers are allowed ones")]
fn round(limit: &str) -> (Duration, Duration) {
    let store = MemoryStore::builder().max_keys(ROOM).build().unwrap();
    let plans = [Plan::new("gold", limit).unwrap()];
    let clock = quanta::Clock::new();
    let start = clock.now();
    let keys = (0..PASSING).map(|nth| Key::new(key(nth)).unwrap());
    let calls = keys.map(|key| {
        let start = clock.now();
        let _ = std::hint::black_box(store.try_acquire_sync(&key, &plans, Cost::ONE));
        clock.now().duration_since(start)
    });
    let longest_call = longest(calls);
    let took = clock.now().duration_since(start);
    let steps = std::iter::from_fn(|| {
        let step = clock.now();
        (step.duration_since(start) < 2 * took).then(|| clock.now().duration_since(step))
    });
    (longest_call, longest(steps))
}

/// Returns the longest of `times`, leaving out those around which the system took the core away.
fn longest(mut times: impl Iterator<Item = Duration>) -> Duration {
    let (mut longest, mut interruptions) = (Duration::ZERO, interruptions_so_far());
    while let Some(of_span) = times.by_ref().take(SPAN).max() {
        let so_far = interruptions_so_far();
        if so_far == interruptions {
            longest = longest.max(of_span);
        }
        interruptions = so_far;
    }
    longest
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Returns how often this thread was made to leave its core, or `None` where the system does not tell.
fn interruptions_so_far() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}
