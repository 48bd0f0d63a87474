//! [`Pauses`]: the longest calls while many keys pass through a store that has room for a tenth of them.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use limiter_core::{Cost, Key, Plan};
use limiter_memory::MemoryStore;
use limiter_testkit::ManualClock;

use crate::workload::key;

/// How many keys pass through.
const PASSING: usize = 10_000_000;
const ROOM: usize = 1_000_000;
/// So many keys are made beforehand at a time.
const SPAN: usize = 1_000;
/// The store's clock goes by the calls, about as fast as they are made.
const CALLS_PER_MICROSECOND: usize = 4;

/// The longest calls while many keys pass, and the longest steps of a loop that does nothing for as long.
///
/// All by the wall clock. A machine that is shared takes milliseconds away several times a second, as the idle loop shows, so the
/// longest call of a round says more of the machine than of the store. Hence the rounds are replays: the same keys in the same order
/// at the same times on a store with the same seed, which does the same at the same call. What the store causes comes again in every
/// round, at that very call; what the machine does comes elsewhere. So a call counts by the round in which it was shortest.
#[derive(Clone, Copy)]
pub struct Pauses {
    /// The longest call, each by its shortest replay: what the store causes.
    pub replayed: Duration,
    /// The longest call of a round, whoever caused it: the median of the rounds.
    pub round: Duration,
    /// The longest step of an idle loop in as long as a round takes: the median of the rounds.
    pub idle_round: Duration,
}

impl Pauses {
    /// Measures so many rounds.
    #[must_use]
    pub fn measure(limit: &str, rounds: usize) -> Self {
        let mut shortest = vec![Duration::MAX; PASSING];
        let (mut longest, mut idle) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let began = Instant::now();
            longest.push(round(limit, &mut shortest));
            idle.push(idle_for(began.elapsed()));
        }
        Self {
            replayed: shortest.into_iter().max().unwrap_or_default(),
            round: median(longest),
            idle_round: median(idle),
        }
    }
}

/// Lets all keys pass through a new store. Lowers each entry of `shortest` to what that call took now; returns the longest call.
#[expect(clippy::unwrap_used, reason = "the numbers are allowed ones")]
fn round(limit: &str, shortest: &mut [Duration]) -> Duration {
    let clock = ManualClock::new();
    let builder = MemoryStore::builder().max_keys(ROOM).seed(1);
    let store = builder.clock(Arc::new(clock.clone())).build().unwrap();
    let plans = [Plan::new("gold", limit).unwrap()];
    let mut longest = Duration::ZERO;
    for (span, shortest) in shortest.chunks_mut(SPAN).enumerate() {
        let names = (span * SPAN..).take(SPAN).map(key);
        let keys: Vec<_> = names.map(|name| Key::new(name).unwrap()).collect();
        for (call, (key, shortest)) in keys.iter().zip(shortest).enumerate() {
            if call.is_multiple_of(CALLS_PER_MICROSECOND) {
                clock.advance(Duration::from_micros(1));
            }
            let began = Instant::now();
            let _ = black_box(store.try_acquire_sync(key, &plans, Cost::ONE));
            let took = began.elapsed();
            *shortest = took.min(*shortest);
            longest = longest.max(took);
        }
    }
    longest
}

/// Does nothing for as long, and returns the longest step.
fn idle_for(time: Duration) -> Duration {
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    let mut before = began;
    while before - began < time {
        let now = Instant::now();
        longest = longest.max(now - before);
        before = now;
    }
    longest
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
