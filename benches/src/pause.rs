//! [`Pauses`]: the longest call while many keys pass through a store that has room for a tenth of them.

use std::hint::black_box;
use std::time::Duration;

use limiter_core::{Cost, Key, Plan};
use limiter_memory::MemoryStore;
use rustix::time::{ClockId, clock_gettime};

use crate::workload::key;

/// How many keys pass through.
const PASSING: usize = 10_000_000;
const ROOM: usize = 1_000_000;
/// So many keys are made beforehand at a time.
const SPAN: usize = 1_000;

/// The longest call of a round, and the longest step of a loop that does nothing for as long.
///
/// Told by how long the thread was running, for itself or in the system: one thread alone waits for nobody, and what other
/// processes or a hypervisor take away is no pause of the store. The system learns of the latter late, so that a part may be
/// counted all the same; the idle loop says how much to expect.
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
    let (mut longest_call, start) = (Duration::ZERO, running());
    for first in (0..PASSING).step_by(SPAN) {
        let keys = (first..first + SPAN).map(|nth| Key::new(key(nth)).unwrap());
        let keys: Vec<Key> = keys.collect();
        let calls = keys.iter().map(|key| {
            let _ = black_box(store.try_acquire_sync(key, &plans, Cost::ONE));
        });
        longest_call = longest_call.max(longest(calls));
    }
    let took = running() - start;
    let end = running() + took;
    (
        longest_call,
        longest((0..).map_while(|_: u64| (running() < end).then_some(()))),
    )
}

/// Returns how long the longest of `steps` kept the thread running.
fn longest(steps: impl Iterator<Item = ()>) -> Duration {
    let (mut longest, mut before) = (Duration::ZERO, running());
    for () in steps {
        let now = running();
        longest = longest.max(now - before);
        before = now;
    }
    longest
}

/// Returns how long this thread has been running.
fn running() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
