//! [`Contest`]: one workload, all contestants, taking turns.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::contestant::{Boxed, Contestant, Governor, Ours};
use crate::workload::Workload;

/// How one workload went: nanoseconds a decision, medians of the rounds.
pub struct Contest {
    /// The memory store, by its plain methods.
    pub sync_ns: f64,
    /// The memory store, through the async port.
    pub boxed_ns: f64,
    /// Governor.
    pub governor_ns: f64,
    /// The first, as a part of governor's: the median of what each round said.
    pub sync_ratio: f64,
    /// The second, as a part of governor's.
    pub boxed_ratio: f64,
}

impl Contest {
    /// Lets all contestants go through `work`, in turns, `rounds` times. Each round begins with another of them.
    #[must_use]
    pub fn run(work: &Workload, rounds: usize) -> Self {
        let contestants: [&dyn Contestant; 3] =
            [&Ours::new(work), &Boxed::new(work), &Governor::new(work)];
        let decisions = work.keys.len() * work.repeats;
        let ns = |contestant| time(contestant, work).as_nanos() as f64 / decisions as f64;
        let round = |nth: usize| {
            let mut turns = contestants.map(|contestant| (contestant, 0.0));
            turns.rotate_left(nth % contestants.len());
            for (contestant, took_ns) in &mut turns {
                *took_ns = ns(*contestant);
            }
            turns.rotate_right(nth % contestants.len());
            turns.map(|(_, took_ns)| took_ns)
        };
        let mut times: Vec<[f64; 3]> = (0..=rounds).map(round).collect();
        times.remove(0);
        let median_of = |pick: fn(&[f64; 3]) -> f64| median(times.iter().map(pick).collect());
        Self {
            sync_ns: median_of(|&[sync, _, _]| sync),
            boxed_ns: median_of(|&[_, boxed, _]| boxed),
            governor_ns: median_of(|&[_, _, governor]| governor),
            sync_ratio: median_of(|&[sync, _, governor]| sync / governor),
            boxed_ratio: median_of(|&[_, boxed, governor]| boxed / governor),
        }
    }
}

/// Measures one round: how long all threads take, side by side.
fn time(contestant: &dyn Contestant, work: &Workload) -> Duration {
    let go = || {
        let admitted: usize = (0..work.repeats).map(|_| contestant.decide_all()).sum();
        let asked = work.keys.len() * work.repeats;
        assert_eq!(
            admitted, asked,
            "a contest in which somebody is denied is void"
        );
    };
    if work.threads == 1 {
        let start = Instant::now();
        go();
        return start.elapsed();
    }
    let (go, gate) = (&go, &Barrier::new(work.threads + 1));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..work.threads)
            .map(|_| {
                scope.spawn(move || {
                    gate.wait();
                    let start = Instant::now();
                    go();
                    start.elapsed()
                })
            })
            .collect();
        gate.wait();
        let times = threads.into_iter().filter_map(|thread| thread.join().ok());
        times.max().unwrap_or_default()
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
