//! [`Sharded`]: keys over shards, each behind its lock.

use std::sync::Arc;

use limiter_core::{Clock, Timestamp};

use crate::MemoryStats;
use crate::counters::Counters;
use crate::fingerprint::{Fingerprint, Secret};
use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::sync::{Mutex, MutexGuard, lock, try_lock};
use crate::table::Slot;
use crate::tracked::SLOTS_PER_VISIT;

/// A part of the keys of a store.
pub(crate) trait Shard: Default {
    /// What it keeps for a key.
    type Entry;

    /// Sweeps a little of the shard now and then; says whether it is time to visit another one.
    fn tend(&mut self, now: Timestamp, counters: &Counters) -> bool;

    /// Frees what expired more than a grace ago in the next `slots` slots.
    fn sweep(&mut self, slots: usize, now: Timestamp, counters: &Counters);

    /// Begins a sweep at the front again.
    fn restart(&mut self);
}

/// All shards of a store, and what they share: the cap, the secret and the clock.
pub(crate) struct Sharded<S> {
    shards: Box<[Padded<Mutex<S>>]>,
    next_visit: Padded<AtomicUsize>,
    counters: Padded<Counters>,
    secret: Secret,
    clock: Arc<dyn Clock>,
}

/// Keeps what two threads write off each other's cache lines.
#[repr(align(128))]
struct Padded<T>(T);

/// How many keys a shard is meant for: few enough that to rebuild one takes microseconds.
const KEYS_PER_SHARD: usize = 4096;
const MAX_SHARDS: usize = 16_384;

impl<S: Shard> Sharded<S> {
    pub(crate) fn new(max_keys: usize, clock: Arc<dyn Clock>) -> Self {
        let shards = (max_keys / KEYS_PER_SHARD).clamp(1, MAX_SHARDS);
        let bytes_per_slot = size_of::<Slot<S::Entry>>();
        Self {
            shards: (0..shards.next_power_of_two())
                .map(|_| Padded(Mutex::new(S::default())))
                .collect(),
            next_visit: Padded(AtomicUsize::new(0)),
            counters: Padded(Counters::new(max_keys, bytes_per_slot)),
            secret: Secret::random(),
            clock,
        }
    }

    pub(crate) const fn secret(&self) -> &Secret {
        &self.secret
    }

    pub(crate) fn stats(&self) -> MemoryStats {
        self.counters.0.stats()
    }

    /// Frees every key that has been idle for more than the grace past its expiry, one shard at a time.
    pub(crate) fn sweep(&self) {
        let now = self.clock.now();
        for shard in &self.shards {
            let mut shard = lock(&shard.0);
            shard.restart();
            shard.sweep(usize::MAX, now, &self.counters.0);
        }
    }

    pub(crate) const fn counters(&self) -> &Counters {
        &self.counters.0
    }

    /// Locks the shard of `key`.
    ///
    /// The time is read first, to hold the lock for as short as can be. Who then waits for the lock may find a newer
    /// state, and decides as if the clock had stepped back: as of the time in that state.
    pub(crate) fn open(&self, key: Fingerprint) -> (MutexGuard<'_, S>, Timestamp) {
        let now = self.clock.now();
        (lock(self.shard_of(key)), now)
    }

    /// Unlocks a shard, and tends the shards a little.
    pub(crate) fn close(&self, mut shard: MutexGuard<'_, S>, now: Timestamp) {
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
    fn shard_of(&self, key: Fingerprint) -> &Mutex<S> {
        &self.shards[low_bits(key.rest) & (self.shards.len() - 1)].0
    }

    /// Sweeps a piece of the shard whose turn it is, unless somebody is using it.
    fn visit_next_shard(&self, now: Timestamp) {
        let turn = self.next_visit.0.fetch_add(1, Relaxed) & (self.shards.len() - 1);
        if let Some(mut shard) = self.shards.get(turn).and_then(|shard| try_lock(&shard.0)) {
            shard.sweep(SLOTS_PER_VISIT, now, &self.counters.0);
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
