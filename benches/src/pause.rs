//! [`Pauses`]: the longest calls while many keys pass through a store that has room for a tenth of them.

use std::hint::black_box;
use std::time::Duration;

use limiter_core::{Cost, Key, Plan};
use limiter_memory::MemoryStore;
use rustix::time::{ClockId, clock_gettime};

use crate::workload::key;

/// How many keys pass through.
const PASSING: usize = STRETCH * STRETCHES as usize;
const ROOM: usize = 1_000_000;
/// So many keys are made beforehand at a time.
const SPAN: usize = 1_000;

/// In so many stretches, one after the other,
const STRETCHES: u32 = 100;
/// of so many keys.
const STRETCH: usize = 100_000;

/// The longest calls while many keys pass, and the longest steps of a loop that does nothing for as long.
///
/// Told by how long the thread was running, for itself or in the system: one thread alone waits for nobody, and what other
/// processes or a hypervisor take away is no pause of the store. The system learns of the latter late, so that a part is counted
/// all the same: on a busy host, milliseconds several times a second. So each stretch of the way is gone several times, in rounds,
/// and its longest call is that of the round that was disturbed least there.
///
/// Parts of the tables are rebuilt and swept in every stretch, so what that takes is seen. What happened once in a round, and each
/// time in another stretch, would not be; the longest call of a whole round has it, and all that the machine does.
#[derive(Clone, Copy)]
pub struct Pauses {
    /// The longest call of all stretches, each in its least disturbed round.
    pub store: Duration,
    /// The longest call of a round, whoever caused it: the median of the rounds.
    pub round: Duration,
    /// The longest step of an idle loop, told as that of the store.
    pub idle: Duration,
    /// The longest step of an idle loop in a round, told as that of a round.
    pub idle_round: Duration,
}

impl Pauses {
    /// Measures so many rounds.
    #[must_use]
    pub fn measure(limit: &str, rounds: usize) -> Self {
        let rounds = (0..rounds).map(|_| round(limit));
        let (store, idle): (Vec<_>, Vec<_>) = rounds.unzip();
        Self {
            store: longest_undisturbed(&store),
            round: longest_of_a_round(&store),
            idle: longest_undisturbed(&idle),
            idle_round: longest_of_a_round(&idle),
        }
    }
}

/// The longest call of each stretch.
type Round = Vec<Duration>;

fn longest_of_a_round(rounds: &[Round]) -> Duration {
    let longest = rounds
        .iter()
        .filter_map(|round| round.iter().copied().max());
    median(longest.collect())
}

/// Returns the longest of all stretches, each in the round in which it was shortest.
fn longest_undisturbed(rounds: &[Round]) -> Duration {
    let stretches = rounds.first().map_or(0, Vec::len);
    let least = |stretch: usize| {
        let longest_calls = rounds.iter().filter_map(|round| round.get(stretch));
        longest_calls.min()
    };
    let longest = (0..stretches).filter_map(least).max();
    longest.copied().unwrap_or_default()
}

/// Lets all keys pass through a new store, then idles for as long.
#[expect(clippy::unwrap_used, reason = "the numbers are allowed ones")]
fn round(limit: &str) -> (Round, Round) {
    let store = MemoryStore::builder().max_keys(ROOM).build().unwrap();
    let plans = [Plan::new("gold", limit).unwrap()];
    let call = |key: &Key| {
        let _ = black_box(store.try_acquire_sync(key, &plans, Cost::ONE));
    };
    let start = running();
    let stretches = (0..PASSING).step_by(STRETCH).map(|first| {
        let spans = (first..first + STRETCH).step_by(SPAN);
        let longest_calls = spans.map(|first| {
            let keys = (first..first + SPAN).map(|nth| Key::new(key(nth)).unwrap());
            let keys: Vec<Key> = keys.collect();
            longest(keys.iter().map(call))
        });
        longest_calls.max().unwrap_or_default()
    });
    let of_store = stretches.collect();
    let each = (running() - start) / STRETCHES;
    let idle = (0..STRETCHES).map(|_| {
        let end = running() + each;
        longest((0..).map_while(|_: u64| (running() < end).then_some(())))
    });
    (of_store, idle.collect())
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
