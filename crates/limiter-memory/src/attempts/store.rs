//! [`MemoryAbuseStore`]: attempts and blocks in this process.

use std::sync::Arc;

use async_trait::async_trait;
use limiter_core::abuse::{self, AbuseState};
use limiter_core::{
    AbusePolicy, AbuseRepository, AbuseVerdict, Block, Clock, Key, StoreError, Timestamp,
};

use super::AttemptStats;
use super::shard::{AttemptShard, STATES_PER_VISIT};
use crate::MemoryStoreBuilder;
use crate::counters::Counters;
use crate::fingerprint::{Fingerprint, Secret};
use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::sync::{Mutex, MutexGuard, lock, try_lock};

/// Keeps attempts and blocks in this process, and decides with the core's own math.
///
/// What is said of [`MemoryStore`](crate::MemoryStore) goes for it too: exact under any threading, bounded, frees idle keys
/// by itself, safe against hash flooding and clocks that step back. A key under a policy takes some 130 bytes, and 8 for
/// each attempt that it keeps: at most as many as the policy's largest threshold, however hard it is hammered.
///
/// A store of its own, so that a flood of attackers does not take the room of the keys of rate limits.
///
/// Each operation is there twice: as [`AbuseRepository`] asks for it, and as a plain method (`..._sync`).
///
/// # Examples
/// ```
/// use limiter_core::{AbusePolicy, Key, Tier, minutes};
/// use limiter_memory::MemoryAbuseStore;
///
/// let store = MemoryAbuseStore::new();
/// let login = AbusePolicy::builder("login").tier(Tier::new("temp", 3, minutes(10))).build()?;
/// let key = Key::new("203.0.113.9")?;
/// assert!(store.record_sync(&key, &login)?.block.is_none());
/// assert!(store.record_sync(&key, &login)?.block.is_none());
/// let third = store.record_sync(&key, &login)?;
/// assert_eq!(third.block.map(|block| block.retry_after), Some(minutes(10)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MemoryAbuseStore {
    shards: Box<[Mutex<AttemptShard>]>,
    next_visit: AtomicUsize,
    counters: Counters,
    secret: Secret,
    clock: Arc<dyn Clock>,
}

/// How many keys a shard is meant for.
const KEYS_PER_SHARD: usize = 4096;
const MAX_SHARDS: usize = 4096;

impl MemoryAbuseStore {
    /// Makes a store for a million keys, on the system's clock.
    #[must_use]
    pub fn new() -> Self {
        MemoryStoreBuilder::new().build_abuse_store_checked()
    }

    /// Starts a store with other settings; end with
    /// [`build_abuse_store`](MemoryStoreBuilder::build_abuse_store).
    pub const fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::new()
    }

    pub(crate) fn with(max_keys: usize, clock: Arc<dyn Clock>) -> Self {
        let shards = (max_keys / KEYS_PER_SHARD).clamp(1, MAX_SHARDS);
        Self {
            shards: (0..shards.next_power_of_two())
                .map(|_| Mutex::default())
                .collect(),
            next_visit: AtomicUsize::new(0),
            counters: Counters::new(max_keys),
            secret: Secret::random(),
            clock,
        }
    }

    /// Counts an attempt of `key`, and says whether it is turned away.
    ///
    /// # Errors
    /// [`StoreError::Full`] if `key` is new and there is no room for it. Nothing is counted then.
    pub fn record_sync(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        self.run(key, policy, |state, now| abuse::record(policy, state, now))
    }

    /// Says which block is in force and what the counts are, and changes nothing.
    pub fn status_sync(&self, key: &Key, policy: &AbusePolicy) -> AbuseVerdict {
        self.look(key, policy, |state, now| abuse::status(policy, state, now))
    }

    /// Forgets the attempts of `key`. A block in force stays.
    ///
    /// # Errors
    /// None; it is a `Result` only as those of other stores are.
    pub fn forgive_sync(&self, key: &Key, policy: &AbusePolicy) -> Result<(), StoreError> {
        self.run(key, policy, |state, now| abuse::forgive(policy, state, now))
    }

    /// Lifts the block of `key`, makes the key as new and returns the block; changes nothing if there is none.
    ///
    /// # Errors
    /// None; it is a `Result` only as those of other stores are.
    pub fn unblock_sync(
        &self,
        key: &Key,
        policy: &AbusePolicy,
    ) -> Result<Option<Block>, StoreError> {
        self.run(key, policy, abuse::unblock)
    }

    /// Returns how many bytes are held for `key` under `policy`, its place in the table included; 0 if none are.
    #[must_use]
    pub fn bytes_of(&self, key: &Key, policy: &AbusePolicy) -> usize {
        self.look(key, policy, |state, _| bytes(state))
    }

    /// Frees every key that has been idle for more than a second past its expiry, one shard at a time.
    ///
    /// Calls do this by themselves, bit by bit. It is of use where a burst of keys may be followed by no call at all.
    pub fn sweep(&self) {
        let now = self.clock.now();
        for shard in &self.shards {
            lock(shard).sweep_all(now, &self.counters);
        }
    }

    /// Says how full the store is, and what its cap cost.
    #[must_use]
    pub fn stats(&self) -> AttemptStats {
        let stats = self.counters.stats();
        AttemptStats {
            tracked_keys: stats.tracked_keys,
            max_keys: stats.max_keys,
            refused_new_keys: stats.refused_new_keys,
        }
    }

    fn look<R>(
        &self,
        key: &Key,
        policy: &AbusePolicy,
        look: impl FnOnce(Option<&AbuseState>, Timestamp) -> R,
    ) -> R {
        let (shard, key, now) = self.open(key, policy);
        let answer = shard.look(key, now, look);
        self.close(shard, now);
        answer
    }

    fn run<R>(
        &self,
        key: &Key,
        policy: &AbusePolicy,
        step: impl FnOnce(&mut Option<AbuseState>, Timestamp) -> R,
    ) -> Result<R, StoreError> {
        let (mut shard, key, now) = self.open(key, policy);
        let answer = shard.run(key, now, &self.counters, step);
        self.close(shard, now);
        answer
    }

    /// Locks the shard of `key`, and reads the time under that lock.
    #[expect(
        clippy::indexing_slicing,
        reason = "there is a power of two of shards, and the index is masked by it"
    )]
    fn open(
        &self,
        key: &Key,
        policy: &AbusePolicy,
    ) -> (MutexGuard<'_, AttemptShard>, Fingerprint, Timestamp) {
        let key = self.secret.fingerprint_under(policy.name(), key);
        let shard = lock(&self.shards[low_bits(key.place) & (self.shards.len() - 1)]);
        (shard, key, self.clock.now())
    }

    /// Unlocks a shard, and tends the shards a little.
    fn close(&self, mut shard: MutexGuard<'_, AttemptShard>, now: Timestamp) {
        let visit = shard.tend(now, &self.counters);
        drop(shard);
        if visit {
            let turn = self.next_visit.fetch_add(1, Relaxed) & (self.shards.len() - 1);
            if let Some(mut shard) = self.shards.get(turn).and_then(try_lock) {
                shard.sweep(STATES_PER_VISIT, now, &self.counters);
            }
        }
    }
}

/// Counts a key's share of the tree, at its sparsest, and its box; none for no state.
fn bytes(state: Option<&AbuseState>) -> usize {
    let in_the_tree = 2 * (size_of::<Fingerprint>() + size_of::<Box<AbuseState>>());
    state.map_or(0, |state| in_the_tree + state.bytes())
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the high bits are not wanted"
)]
const fn low_bits(bits: u64) -> usize {
    bits as usize
}

impl Default for MemoryAbuseStore {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for MemoryAbuseStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryAbuseStore")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl AbuseRepository for MemoryAbuseStore {
    async fn record(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        self.record_sync(key, policy)
    }

    async fn status(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        Ok(self.status_sync(key, policy))
    }

    async fn forgive(&self, key: &Key, policy: &AbusePolicy) -> Result<(), StoreError> {
        self.forgive_sync(key, policy)
    }

    async fn unblock(&self, key: &Key, policy: &AbusePolicy) -> Result<Option<Block>, StoreError> {
        self.unblock_sync(key, policy)
    }
}
