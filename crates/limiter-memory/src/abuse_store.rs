//! [`MemoryAbuseStore`]: attempts and blocks in this process.

use std::sync::Arc;

use async_trait::async_trait;
use limiter_core::abuse::{self, AbuseState};
use limiter_core::{
    AbusePolicy, AbuseRepository, AbuseVerdict, Block, Clock, Key, StoreError, Timestamp,
};

use crate::abuse_shard::{AbuseEntry, AbuseShard};
use crate::sharded::Sharded;
use crate::table::Slot;
use crate::{MemoryStats, MemoryStoreBuilder};

/// Keeps attempts and blocks in this process, and decides with the core's own math.
///
/// What is said of [`MemoryStore`](crate::MemoryStore) goes for it too: exact under any threading, bounded, frees idle keys
/// by itself, safe against hash flooding and clocks that step back. A key under a policy takes 28 to 36 bytes in the table,
/// some 100 more, and 8 for each attempt that it keeps: at most as many as the policy's largest threshold, however hard it
/// is hammered.
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
    keys: Sharded<AbuseShard>,
}

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
        Self {
            keys: Sharded::new(max_keys, clock),
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

    /// Returns how many bytes are held for `key` under `policy`, its slot in the table included; 0 if none are.
    #[must_use]
    pub fn bytes_of(&self, key: &Key, policy: &AbusePolicy) -> usize {
        self.look(key, policy, |state, _| bytes(state))
    }

    /// Frees every key that has been idle for more than a second past its expiry, one shard at a time.
    ///
    /// Calls do this by themselves, bit by bit. It is of use where a burst of keys may be followed by no call at all.
    pub fn sweep(&self) {
        self.keys.sweep();
    }

    fn look<R>(
        &self,
        key: &Key,
        policy: &AbusePolicy,
        look: impl FnOnce(Option<&AbuseState>, Timestamp) -> R,
    ) -> R {
        let key = self.keys.secret().fingerprint_under(policy.name(), key);
        let (mut shard, now) = self.keys.open(key);
        let answer = shard.look(key, now, look);
        self.keys.close(shard, now);
        answer
    }

    fn run<R>(
        &self,
        key: &Key,
        policy: &AbusePolicy,
        step: impl FnOnce(&mut Option<AbuseState>, Timestamp) -> R,
    ) -> Result<R, StoreError> {
        let key = self.keys.secret().fingerprint_under(policy.name(), key);
        let (mut shard, now) = self.keys.open(key);
        let answer = shard.run(key, now, self.keys.counters(), step);
        self.keys.close(shard, now);
        answer
    }

    /// Says how full the store is, and what its cap cost.
    #[must_use]
    pub fn stats(&self) -> MemoryStats {
        self.keys.stats()
    }
}

fn bytes(state: Option<&AbuseState>) -> usize {
    state.map_or(0, |state| state.bytes() + size_of::<Slot<AbuseEntry>>())
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
