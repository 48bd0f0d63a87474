//! [`Turns`]: calls a second of several racers that take turns, so that what else the machine does hits them alike.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What goes wrong while something is measured.
pub type Problem = Box<dyn std::error::Error + Send + Sync>;

type Slot = Pin<Box<dyn Future<Output = Result<f64, Problem>> + Send>>;

/// One that is measured: how it makes a call.
pub struct Racer {
    name: &'static str,
    slot: Box<dyn Fn(usize, Duration) -> Slot>,
    made: Arc<AtomicU64>,
}

impl Racer {
    /// Takes a name and what makes the `nth` call.
    pub fn new<C, F, E>(name: &'static str, call: C) -> Self
    where
        C: Fn(usize) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Problem> + Send + 'static,
    {
        let made = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&made);
        let slot = move |tasks, time| -> Slot {
            Box::pin(per_second(call.clone(), Arc::clone(&count), tasks, time))
        };
        Self {
            name,
            slot: Box::new(slot),
            made,
        }
    }

    /// Returns how many calls it has made.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Returns its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// Makes calls from `tasks` tasks, each as fast as it can, and returns how many a second there were.
async fn per_second<C, F, E>(
    call: C,
    made: Arc<AtomicU64>,
    tasks: usize,
    time: Duration,
) -> Result<f64, Problem>
where
    C: Fn(usize) -> F + Clone + Send + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<Problem> + Send + 'static,
{
    let (began, before) = (Instant::now(), made.load(Ordering::Relaxed));
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let (call, made) = (call.clone(), Arc::clone(&made));
            tokio::spawn(async move {
                let mut nth = task * 7919;
                while began.elapsed() < time {
                    call(nth).await.map_err(Into::into)?;
                    nth += 1;
                    made.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<(), Problem>(())
            })
        })
        .collect();
    for task in running {
        task.await??;
    }
    let done = made.load(Ordering::Relaxed) - before;
    Ok(done as f64 / began.elapsed().as_secs_f64())
}

/// How the racers did, round by round.
pub struct Turns {
    names: Vec<&'static str>,
    rounds: Vec<Vec<f64>>,
}

impl Turns {
    /// Lets every racer have its turn, `rounds` times, after one that does not count. Each makes calls from `tasks` tasks.
    ///
    /// # Errors
    /// What a call says.
    pub async fn run(
        racers: &[Racer],
        tasks: usize,
        rounds: usize,
        time: Duration,
    ) -> Result<Self, Problem> {
        let mut told = Vec::new();
        for round in 0..=rounds {
            let mut rates = Vec::new();
            for racer in racers {
                rates.push((racer.slot)(tasks, time).await?);
            }
            if round > 0 {
                told.push(rates);
            }
        }
        Ok(Self {
            names: racers.iter().map(|racer| racer.name).collect(),
            rounds: told,
        })
    }

    /// Returns the median of the calls a second of the racer called `name`.
    #[must_use]
    pub fn rate(&self, name: &str) -> f64 {
        self.median(|round| self.of(round, name))
    }

    /// Returns how many times as many calls `name` made as `other`: the median of what each round said.
    #[must_use]
    pub fn ratio(&self, name: &str, other: &str) -> f64 {
        self.median(|round| self.of(round, name) / self.of(round, other))
    }

    fn of(&self, round: &[f64], name: &str) -> f64 {
        let at = self.names.iter().position(|known| *known == name);
        at.and_then(|at| round.get(at).copied()).unwrap_or(f64::NAN)
    }

    fn median(&self, of: impl Fn(&[f64]) -> f64) -> f64 {
        let mut values: Vec<_> = self.rounds.iter().map(|round| of(round)).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    }
}
