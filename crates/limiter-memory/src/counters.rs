//! [`MemoryStats`], and the counters of a whole store behind it.

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// How full a [`MemoryStore`](crate::MemoryStore) is, and what its cap cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Keys that hold state now, those that went idle and were not yet swept included.
    pub tracked_keys: usize,
    /// The most keys that may hold state at once.
    pub max_keys: usize,
    /// New keys that were turned away with [`StoreError::Full`](limiter_core::StoreError::Full) because the store was
    /// full. Above zero: raise the cap, or shorten the plans.
    pub refused_new_keys: u64,
    /// Slots that the tables have allocated, vacant ones included. It falls again as keys go idle.
    pub slots: usize,
    /// Bytes of these slots. What keys with several plans or windows with a log hold comes on top.
    pub slot_bytes: usize,
}

/// What all shards of a store count together. Exact, also while others count.
pub(crate) struct Counters {
    max_keys: usize,
    tracked: AtomicUsize,
    refused: AtomicU64,
    slots: AtomicUsize,
}

impl Counters {
    pub(crate) fn new(max_keys: usize) -> Self {
        Self {
            max_keys,
            tracked: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            slots: AtomicUsize::new(0),
        }
    }

    pub(crate) fn max_keys(&self) -> usize {
        self.max_keys
    }

    /// Takes room for one more key, unless there is none.
    pub(crate) fn admit_key(&self) -> bool {
        let one_more = |tracked| (tracked < self.max_keys).then_some(tracked + 1);
        self.tracked
            .fetch_update(Relaxed, Relaxed, one_more)
            .is_ok()
    }

    /// Gives back the room of `keys`.
    pub(crate) fn release_keys(&self, keys: usize) {
        self.tracked.fetch_sub(keys, Relaxed);
    }

    pub(crate) fn refuse_key(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// Counts a table that was rebuilt with another number of slots.
    pub(crate) fn resize(&self, before: usize, after: usize) {
        self.slots.fetch_add(after, Relaxed);
        self.slots.fetch_sub(before, Relaxed);
    }

    pub(crate) fn stats(&self) -> MemoryStats {
        let slots = self.slots.load(Relaxed);
        MemoryStats {
            tracked_keys: self.tracked.load(Relaxed),
            max_keys: self.max_keys,
            refused_new_keys: self.refused.load(Relaxed),
            slots,
            slot_bytes: slots.saturating_mul(size_of::<crate::table::Slot>()),
        }
    }
}
