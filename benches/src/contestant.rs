//! [`Contestant`]: somebody who decides, with a list of keys at hand.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use limiter_core::{Cost, Key, Plan, RateLimiterRepository, TokenBucket};
use limiter_memory::MemoryStore;

use crate::workload::Workload;

/// Tokens a second, and the burst: so many that nobody is ever denied.
const PER_SECOND: u32 = 100_000_000;

/// Somebody who decides, with a list of keys at hand.
pub trait Contestant: Sync {
    /// Decides once for each key of the list; returns how many were admitted.
    fn decide_all(&self) -> usize;
}

/// The memory store, asked by its plain methods.
pub struct Ours {
    store: MemoryStore,
    plans: [Plan; 1],
    keys: Vec<Key>,
}

/// The memory store behind `Arc<dyn RateLimiterRepository>`.
pub struct Boxed {
    store: Arc<dyn RateLimiterRepository>,
    plans: [Plan; 1],
    keys: Vec<Key>,
}

/// Governor's keyed rate limiter, with `String` keys and its default features.
pub struct Governor {
    limiter: DefaultKeyedRateLimiter<String>,
    keys: Vec<String>,
}

impl Ours {
    /// Sets the contestant up for `work`: every key has come once.
    #[must_use]
    pub fn new(work: &Workload) -> Self {
        let mut this = Self {
            store: MemoryStore::new(),
            plans: plans(),
            keys: keys(&work.arrivals()),
        };
        this.decide_all();
        this.keys = keys(&work.keys);
        this
    }
}

impl Boxed {
    /// Sets the contestant up for `work`: every key has come once.
    #[must_use]
    pub fn new(work: &Workload) -> Self {
        let mut this = Self {
            store: Arc::new(MemoryStore::new()),
            plans: plans(),
            keys: keys(&work.arrivals()),
        };
        this.decide_all();
        this.keys = keys(&work.keys);
        this
    }
}

impl Governor {
    /// Sets the contestant up for `work`: every key has come once.
    #[must_use]
    pub fn new(work: &Workload) -> Self {
        let per_second = PER_SECOND.try_into().unwrap_or(std::num::NonZeroU32::MIN);
        let mut this = Self {
            limiter: RateLimiter::keyed(Quota::per_second(per_second)),
            keys: work.arrivals(),
        };
        this.decide_all();
        this.keys = laid_out(&work.keys);
        this
    }
}

impl Contestant for Ours {
    fn decide_all(&self) -> usize {
        count(&self.keys, |key| {
            let answer = self.store.try_acquire_sync(key, &self.plans, Cost::ONE);
            matches!(answer, Ok(verdict) if verdict.admitted)
        })
    }
}

impl Contestant for Boxed {
    fn decide_all(&self) -> usize {
        count(&self.keys, |key| {
            let answer = at_once(self.store.try_acquire(key, &self.plans, Cost::ONE));
            matches!(answer, Some(Ok(verdict)) if verdict.admitted)
        })
    }
}

impl Contestant for Governor {
    fn decide_all(&self) -> usize {
        count(&self.keys, |key| self.limiter.check_key(key).is_ok())
    }
}

fn count<K>(keys: &[K], admits: impl Fn(&K) -> bool) -> usize {
    keys.iter().filter(|key| admits(key)).count()
}

/// Returns what `future` answers at its first poll.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

#[expect(clippy::unwrap_used, reason = "the numbers are allowed ones")]
fn plans() -> [Plan; 1] {
    [Plan::new("gold", TokenBucket::per_second(PER_SECOND)).unwrap()]
}

/// Copies `keys` to where they lie one behind another in memory, as ours do.
fn laid_out(keys: &[String]) -> Vec<String> {
    let copies: Vec<_> = keys
        .iter()
        .map(|key| {
            let mut copy = String::with_capacity(UNUSED_SIZE);
            copy.push_str(key);
            copy
        })
        .collect();
    let apart = |pair: &[String]| match pair {
        [one, next] => one.as_ptr().addr().abs_diff(next.as_ptr().addr()),
        _ => 0,
    };
    let strays = copies.windows(2).filter(|pair| apart(pair) > 64).count();
    assert!(
        strays * 20 <= copies.len(),
        "{strays} of {} keys do not lie behind the one before",
        copies.len()
    );
    copies
}

/// Nothing else here has strings of this size, so that the allocator has no holes for them all over the place.
const UNUSED_SIZE: usize = 40;

fn keys(texts: &[String]) -> Vec<Key> {
    texts.iter().filter_map(|key| Key::new(key).ok()).collect()
}
