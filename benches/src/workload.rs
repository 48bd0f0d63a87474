//! [`Workload`]: which keys are asked for, in which order.

/// A list of keys, to be asked for from front to back, again and again.
///
/// Each mention of a key is a copy of its own, in the order of use, as if a request had just brought it: what is measured
/// is the store, not the search for its input. Before that, every key has come once, in [another order](Self::arrivals):
/// users come back in no order, and a store must not gain by lying in memory as the list does.
pub struct Workload {
    /// What to call it.
    pub name: &'static str,
    /// The keys, 16 bytes each.
    pub keys: Vec<String>,
    /// How often the list is gone through in one round.
    pub repeats: usize,
    /// How many threads go through it at the same time.
    pub threads: usize,
}

const MENTIONS: usize = 1 << 18;

impl Workload {
    /// One key, asked for by each of `threads`.
    #[must_use]
    pub fn hot(name: &'static str, threads: usize) -> Self {
        Self {
            name,
            keys: vec![key(0); 1024],
            repeats: 512,
            threads,
        }
    }

    /// `count` keys, all asked for alike.
    #[must_use]
    pub fn even(name: &'static str, count: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(1);
        let mut keys: Vec<_> = (0..count).map(key).collect();
        keys.extend((count..MENTIONS).map(|_| key(random.usize(..count))));
        random.shuffle(&mut keys);
        Self {
            name,
            keys,
            repeats: 1,
            threads: 1,
        }
    }

    /// `count` keys of which the nth is asked for 1/n as often as the first.
    #[must_use]
    pub fn zipf(name: &'static str, count: usize, threads: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(2);
        let mut sum = 0.0;
        let sums: Vec<f64> = (1..=count)
            .map(|rank| {
                sum += 1.0 / rank as f64;
                sum
            })
            .collect();
        let mut draw = || {
            let drawn = random.f64() * sum;
            key(sums.partition_point(|&sum| sum < drawn))
        };
        Self {
            name,
            keys: (0..4 * MENTIONS).map(|_| draw()).collect(),
            repeats: 1,
            threads,
        }
    }
}

impl Workload {
    /// Each key once, in the order of their names.
    #[must_use]
    pub fn arrivals(&self) -> Vec<String> {
        let mut keys = self.keys.clone();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// Returns the nth key: 16 bytes.
#[must_use]
pub fn key(nth: usize) -> String {
    format!("user:{nth:011}")
}
