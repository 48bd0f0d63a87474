//! [`Tracked`]: a table that frees what has expired, and keeps to the cap of its store.

use limiter_core::{StoreError, Timestamp};

use crate::counters::Counters;
use crate::fingerprint::Fingerprint;
use crate::table::{Entry, Slot, Table};

/// The keys of one shard, and the sweep that goes round them.
pub(crate) struct Tracked<E> {
    table: Table<E>,
    /// What was reclaimed had expired by then: an absent key is decided no earlier, so that a clock that steps back
    /// grants nothing twice.
    floor: Timestamp,
    /// No entry expires before this.
    none_expires_before_us: u64,
    /// No entry that the sweep has passed since it last began at the front expires before this.
    none_passed_expires_before_us: u64,
    cursor: usize,
    calls: u32,
}

/// What is due after a call.
pub(crate) struct Due {
    /// Whether to sweep a little of this shard.
    pub(crate) sweep: bool,
    /// Whether to sweep a piece of the next one, so that quiet shards are swept too.
    pub(crate) visit: bool,
}

/// How far a sweep came.
#[derive(PartialEq, Eq)]
pub(crate) enum Swept {
    /// To the last slot: the next sweep begins with the first.
    ToTheEnd,
    /// Not so far.
    Partly,
}

/// How long past its expiry an entry is left in its place: a clock that steps back by less meets the very state that was
/// there.
const RECLAIM_GRACE_US: u64 = 1_000_000;
/// A shard sweeps a little of itself once in so many calls,
const CALLS_PER_SWEEP: u32 = 16;
/// this many slots,
pub(crate) const SLOTS_PER_SWEEP: usize = 32;
/// and asks for a sweep of the next shard once in so many.
const CALLS_PER_VISIT: u32 = 64;
/// A visit sweeps so many slots.
pub(crate) const SLOTS_PER_VISIT: usize = 128;

impl<E> Default for Tracked<E> {
    fn default() -> Self {
        Self {
            table: Table::default(),
            floor: Timestamp::EPOCH,
            none_expires_before_us: u64::MAX,
            none_passed_expires_before_us: u64::MAX,
            cursor: 0,
            calls: 0,
        }
    }
}

impl<E: Entry> Tracked<E> {
    pub(crate) fn get_mut(&mut self, key: Fingerprint) -> Option<&mut E> {
        self.table.get_mut(key)
    }

    /// Returns all entries.
    pub(crate) fn entries_mut(&mut self) -> impl Iterator<Item = &mut E> {
        self.table.entries_mut()
    }

    /// Returns the time at which to decide on what is not there.
    pub(crate) fn time_of_none(&self, now: Timestamp) -> Timestamp {
        now.max(self.floor)
    }

    /// Lets go of what expires at `expires_at_us` if that is more than the grace ago; returns whether it stays.
    pub(crate) fn stays(&mut self, expires_at_us: u64, now: Timestamp) -> bool {
        let stays = expires_at_us > now.as_micros().saturating_sub(RECLAIM_GRACE_US);
        if !stays {
            self.raise_floor(expires_at_us);
        }
        stays
    }

    /// Notes when an entry that was written expires.
    #[inline]
    pub(crate) fn note(&mut self, expires_at_us: u64) {
        self.none_expires_before_us = self.none_expires_before_us.min(expires_at_us);
        self.none_passed_expires_before_us = self.none_passed_expires_before_us.min(expires_at_us);
    }

    /// Adds an entry under a key that has none.
    ///
    /// # Errors
    /// [`StoreError::Full`] if there is no room for one more key, and none has expired.
    pub(crate) fn insert(
        &mut self,
        key: Fingerprint,
        entry: E,
        now: Timestamp,
        counters: &Counters,
    ) -> Result<(), StoreError> {
        if !counters.admit_key() && !self.make_room(now) {
            counters.refuse_key();
            let max_keys = counters.max_keys();
            return Err(StoreError::Full { max_keys });
        }
        self.note(entry.expires_at_us());
        let slots_before = self.table.slots();
        self.table.insert(key, entry);
        self.note_resize(slots_before, counters);
        Ok(())
    }

    /// Removes the entry of a key, if it has one.
    pub(crate) fn remove(&mut self, key: Fingerprint, counters: &Counters) {
        if let Some(index) = self.table.remove(key) {
            self.cursor -= usize::from(index < self.cursor);
            counters.release_keys(1);
        }
    }

    /// Counts a call, and says what is due.
    pub(crate) fn count_call(&mut self) -> Due {
        self.calls = self.calls.wrapping_add(1);
        Due {
            sweep: self.calls.is_multiple_of(CALLS_PER_SWEEP),
            visit: self.calls.is_multiple_of(CALLS_PER_VISIT),
        }
    }

    /// Begins a sweep at the front again.
    pub(crate) fn restart(&mut self) {
        self.cursor = 0;
        self.none_passed_expires_before_us = u64::MAX;
    }

    /// Frees what expired more than the grace ago in the next `slots` slots, and the table's own memory if it is mostly
    /// vacant.
    pub(crate) fn sweep(&mut self, slots: usize, now: Timestamp, counters: &Counters) -> Swept {
        let Some(expired_by_us) = now.as_micros().checked_sub(RECLAIM_GRACE_US) else {
            return Swept::Partly;
        };
        if expired_by_us < self.none_expires_before_us {
            return Swept::Partly;
        }
        let before = self.table.len();
        let mut swept = Swept::Partly;
        for _ in 0..slots {
            match self.table.at(self.cursor).map(Slot::entry) {
                Some(Some(entry)) if entry.expires_at_us() <= expired_by_us => self.reclaim(),
                Some(entry) => self.pass(entry.map(E::expires_at_us)),
                None => {
                    self.none_expires_before_us = self.none_passed_expires_before_us;
                    self.restart();
                    swept = Swept::ToTheEnd;
                    break;
                }
            }
        }
        counters.release_keys(before - self.table.len());
        let slots_before = self.table.slots();
        self.table.shrink();
        self.note_resize(slots_before, counters);
        swept
    }

    /// Makes room for a new key by reclaiming one that has expired, without the grace; `false` if none has.
    ///
    /// A scan in vain leaves behind when to try again, so that a flood of new keys costs no scan each.
    fn make_room(&mut self, now: Timestamp) -> bool {
        let now_us = now.as_micros();
        if now_us < self.none_expires_before_us {
            return false;
        }
        let mut earliest_us = u64::MAX;
        for _ in 0..=self.table.slots() {
            match self.table.at(self.cursor).map(Slot::entry) {
                Some(Some(entry)) if entry.expires_at_us() <= now_us => {
                    self.reclaim();
                    return true;
                }
                Some(entry) => {
                    let expires_at_us = entry.map(E::expires_at_us);
                    earliest_us = earliest_us.min(expires_at_us.unwrap_or(u64::MAX));
                    self.pass(expires_at_us);
                }
                None => self.restart(),
            }
        }
        self.none_expires_before_us = earliest_us;
        self.restart();
        false
    }

    /// Notes that the table may have been rebuilt, and every entry be elsewhere.
    fn note_resize(&mut self, slots_before: usize, counters: &Counters) {
        let slots = self.table.slots();
        if slots != slots_before {
            counters.resize(slots_before, slots);
            self.restart();
        }
    }

    /// Moves the cursor past a slot, which holds an entry that expires then, or nothing.
    fn pass(&mut self, expires_at_us: Option<u64>) {
        let expires_at_us = expires_at_us.unwrap_or(u64::MAX);
        self.none_passed_expires_before_us = self.none_passed_expires_before_us.min(expires_at_us);
        self.cursor += 1;
    }

    /// Removes the expired entry under the cursor.
    fn reclaim(&mut self) {
        if let Some(entry) = self.table.at(self.cursor).and_then(Slot::entry) {
            let expires_at_us = entry.expires_at_us();
            self.raise_floor(expires_at_us);
            self.table.remove_at(self.cursor);
        }
    }

    fn raise_floor(&mut self, moment_us: u64) {
        let moment = Timestamp::from_micros(moment_us).unwrap_or(Timestamp::MAX);
        self.floor = self.floor.max(moment);
    }
}
