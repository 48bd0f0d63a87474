//! [`MemoryStore`]: the store in this process.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use limiter_core::math::{self, BucketDecision, Draw};
use limiter_core::{
    Cost, InProcessRepository, Key, Limit, Plan, RandomSource, RateLimiterRepository, Refund,
    StoreError, Timestamp, Verdict, check_refund, check_request,
};

use crate::at_first_poll::AtFirstPoll;
use crate::counters::Counters;
use crate::fingerprint::{Fingerprint, Secret};
use crate::shard::{SLOTS_PER_VISIT, Shard};
use crate::short_lock::{ShortGuard, ShortLock};
use crate::store_clock::StoreClock;
use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::{MemoryStats, MemoryStoreBuilder};

/// Keeps limiter state in this process, and decides with the core's own math.
///
/// - **Exact under any threading.** A call holds the lock of its key's shard.
/// - **Bounded.** At most [`max_keys`](MemoryStoreBuilder::max_keys) keys hold state; existing keys are exact also when the
///   store is full.
/// - **Frees itself.** Calls sweep a few slots now and then, in their own shard and the next; a shard that became mostly
///   vacant is rebuilt smaller. No task to start, and no sweep of everything at once. With no calls at all, nothing is
///   freed and nothing is added.
/// - **Safe against hash flooding.** A key is known by a fingerprint of 113 bits under a random secret of the store. Two keys
///   share state only if their fingerprints are the same: whatever keys somebody makes up, two of them have a chance of
///   2^-113 of that, and among ten million there are two with one of 10^-20, if `SipHash-1-3`, which makes the secret, is a
///   pseudorandom function.
/// - **A clock that steps back grants nothing.** An entry stays for a second past its expiry, so that a step back by less
///   meets the very state that was there; after a longer step, a key without state is decided as of the latest expiry that
///   was reclaimed, which is never too generous.
///
/// Each operation is there twice: as [`RateLimiterRepository`] asks for it, and as a plain method (`..._sync`), which
/// allocates nothing for one token bucket or fixed window. A limiter that has it as a [`RateLimiterRepository`] finds the plain way
/// to decide by [`in_process`](RateLimiterRepository::in_process).
///
/// # Examples
/// ```
/// use limiter_core::{Cost, Key, Plan};
/// use limiter_memory::MemoryStore;
///
/// let store = MemoryStore::new();
/// let key = Key::new("user:42")?;
/// let plans = [Plan::new("gold", "1/min burst 2")?];
/// assert!(store.try_acquire_sync(&key, &plans, Cost::ONE)?.admitted);
/// assert!(store.try_acquire_sync(&key, &plans, Cost::ONE)?.admitted);
/// let denied = store.try_acquire_sync(&key, &plans, Cost::ONE)?;
/// assert!(!denied.admitted && denied.retry_after.as_secs() >= 59);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MemoryStore {
    shards: Box<[Padded<ShortLock<Shard>>]>,
    next_visit: Padded<AtomicUsize>,
    counters: Padded<Counters>,
    secret: Secret,
    clock: StoreClock,
    random: Arc<dyn RandomSource>,
}

/// Keeps what two threads write off each other's cache lines.
#[repr(align(128))]
struct Padded<T>(T);

/// How many keys a shard is meant for: few enough that to rebuild one takes microseconds.
const KEYS_PER_SHARD: usize = 4096;
const MAX_SHARDS: usize = 16_384;

impl MemoryStore {
    /// Makes a store for a million keys, on the system's clock.
    #[must_use]
    pub fn new() -> Self {
        MemoryStoreBuilder::new().build_checked()
    }

    /// Starts a store with other settings.
    pub const fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::new()
    }

    pub(crate) fn with(
        max_keys: usize,
        secret: Secret,
        clock: StoreClock,
        random: Arc<dyn RandomSource>,
    ) -> Self {
        let shards = (max_keys / KEYS_PER_SHARD).clamp(1, MAX_SHARDS);
        Self {
            shards: (0..shards.next_power_of_two())
                .map(|_| Padded(ShortLock::new(Shard::default())))
                .collect(),
            next_visit: Padded(AtomicUsize::new(0)),
            counters: Padded(Counters::new(max_keys)),
            secret,
            clock,
            random,
        }
    }

    /// Spends `cost` under `key` if every enforced plan of `plans` allows it.
    ///
    /// # Errors
    /// [`StoreError::Request`] for a call that can never be answered; [`StoreError::Full`] if `key` is new and there is no
    /// room for it. Nothing is spent then.
    pub fn try_acquire_sync(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        check_request(plans, Some(cost))?;
        let (mut shard, key, now) = self.open(key);
        if let [plan] = plans
            && let Limit::TokenBucket(rule) = plan.limit()
            && let Some(decision) = shard.decide_bucket(key, plan.name(), rule, now, |state| {
                BucketDecision::make(rule, state, now, cost)
            })
        {
            self.close(shard, now);
            return Ok(decision.verdict(plan, rule, now, cost));
        }
        self.decide(shard, key, plans, now, cost)
    }

    /// Decides a request under any plans. Not inlined, so that the short way stays short.
    #[inline(never)]
    fn decide(
        &self,
        mut shard: ShortGuard<'_, Shard>,
        key: Fingerprint,
        plans: &[Plan],
        now: Timestamp,
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        let draw = self.draw(plans);
        let verdict = shard.run(key, plans, now, &self.counters.0, |states, now| {
            math::decide(plans, states, now, cost, draw)
        });
        self.close(shard, now);
        verdict
    }

    /// Says what [`try_acquire_sync`](Self::try_acquire_sync) would answer, and changes nothing.
    ///
    /// # Errors
    /// [`StoreError::Request`] for a call that can never be answered.
    pub fn peek_sync(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        check_request(plans, Some(cost))?;
        let (mut shard, key, now) = self.open(key);
        let verdict = shard.run(key, plans, now, &self.counters.0, |states, now| {
            math::peek(plans, states, now, cost)
        });
        self.close(shard, now);
        verdict
    }

    /// Gives units of one charge back, and says how `plans` then stand for a request of one unit.
    ///
    /// # Errors
    /// [`StoreError::Request`] for a call that can never be answered.
    pub fn refund_sync(
        &self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
    ) -> Result<Verdict, StoreError> {
        check_refund(plans, refund)?;
        let (mut shard, key, now) = self.open(key);
        let verdict = shard.run(key, plans, now, &self.counters.0, |states, now| {
            math::refund(plans, states, now, refund)
        });
        self.close(shard, now);
        verdict
    }

    /// Forgets what `key` spent under each of `plans`.
    ///
    /// # Errors
    /// [`StoreError::Request`] for a call that can never be answered.
    pub fn reset_sync(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        check_request(plans, None)?;
        let (mut shard, key, now) = self.open(key);
        shard.reset(key, plans, now, &self.counters.0);
        self.close(shard, now);
        Ok(())
    }

    /// Frees every key that has been idle for more than a second past its expiry, one shard at a time.
    ///
    /// Calls do this by themselves, bit by bit. It is of use where a burst of keys may be followed by no call at all.
    pub fn sweep(&self) {
        let now = self.clock.now();
        for shard in &self.shards {
            shard.0.lock().sweep_all(now, &self.counters.0);
        }
    }

    /// Says how full the store is, and what its cap cost.
    #[must_use]
    pub fn stats(&self) -> MemoryStats {
        self.counters.0.stats()
    }

    /// Locks the shard of `key`.
    ///
    /// The clock is read first, to hold the lock for as short as can be. Who then waits for the lock may find a newer
    /// state, and decides as if the clock had stepped back: as of the time in that state.
    ///
    /// Nothing goes before the lock that can come after it: to take a lock, a processor first ends all that it has begun,
    /// and then waits for memory with nothing else to do.
    #[expect(
        clippy::inline_always,
        reason = "measured: what comes after the lock stays in registers"
    )]
    #[inline(always)]
    fn open(&self, key: &Key) -> (ShortGuard<'_, Shard>, Fingerprint, Timestamp) {
        let key = self.secret.fingerprint(key.as_bytes());
        let reading = self.clock.read();
        let shard = self.shard_at(key.place).lock();
        (shard, key, self.clock.moment(reading))
    }

    /// Unlocks a shard, and tends the shards a little now and then.
    #[inline]
    fn close(&self, mut shard: ShortGuard<'_, Shard>, now: Timestamp) {
        if shard.is_due_after_this_call() {
            self.tend(shard, now);
        }
    }

    #[cold]
    fn tend(&self, mut shard: ShortGuard<'_, Shard>, now: Timestamp) {
        let visit = shard.tend(now, &self.counters.0);
        drop(shard);
        if visit {
            self.visit_next_shard(now);
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "there is a power of two of shards, and the index is masked by it"
    )]
    fn shard_at(&self, place: u64) -> &ShortLock<Shard> {
        &self.shards[low_bits(place) & (self.shards.len() - 1)].0
    }

    /// Sweeps a piece of the shard whose turn it is, unless somebody is using it.
    fn visit_next_shard(&self, now: Timestamp) {
        let turn = self.next_visit.0.fetch_add(1, Relaxed) & (self.shards.len() - 1);
        if let Some(mut shard) = self.shards.get(turn).and_then(|shard| shard.0.try_lock()) {
            shard.sweep(SLOTS_PER_VISIT, now, &self.counters.0);
        }
    }

    /// Draws lots if one of `plans` needs them.
    fn draw(&self, plans: &[Plan]) -> Draw {
        let by_lot = |plan: &Plan| matches!(plan.limit(), Limit::SuppressingWindow(_));
        if plans.iter().any(by_lot) {
            Draw::from_random(self.random.next_u64())
        } else {
            Draw::LOWEST
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the high bits are not wanted"
)]
const fn low_bits(bits: u64) -> usize {
    bits as usize
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl RateLimiterRepository for MemoryStore {
    // Written out, as an `async fn` moves its arguments and the verdict once more.
    fn try_acquire<'store, 'key, 'plans, 'call>(
        &'store self,
        key: &'key Key,
        plans: &'plans [Plan],
        cost: Cost,
    ) -> Pin<Box<dyn Future<Output = Result<Verdict, StoreError>> + Send + 'call>>
    where
        Self: 'call,
        'store: 'call,
        'key: 'call,
        'plans: 'call,
    {
        Box::pin(AtFirstPoll::new(move || {
            self.try_acquire_sync(key, plans, cost)
        }))
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        self.peek_sync(key, plans, cost)
    }

    async fn refund(
        &self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
    ) -> Result<Verdict, StoreError> {
        self.refund_sync(key, plans, refund)
    }

    async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        self.reset_sync(key, plans)
    }

    fn in_process(&self) -> Option<&dyn InProcessRepository> {
        Some(self)
    }
}

impl InProcessRepository for MemoryStore {
    fn try_acquire_at_once(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        self.try_acquire_sync(key, plans, cost)
    }

    fn spend_if_plenty(&self, key: &Key, plan: &Plan, cost: Cost) -> bool {
        let Limit::TokenBucket(rule) = plan.limit() else {
            return false;
        };
        let (mut shard, key, now) = self.open(key);
        let decision = shard.decide_bucket(key, plan.name(), rule, now, |state| {
            BucketDecision::make_if_plenty(rule, state, now, cost)
        });
        let spent = decision.is_some_and(|decision| decision.admits);
        if spent {
            self.close(shard, now);
        }
        spent
    }
}
