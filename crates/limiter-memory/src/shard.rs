//! [`Shard`]: a part of the keys, decided one at a time.

use limiter_core::math::State;
use limiter_core::{Plan, StoreError, Timestamp};

use crate::counters::Counters;
use crate::entry::{Entry, Kept, States, named};
use crate::fingerprint::Fingerprint;
use crate::origins::Origins;
use crate::table::{Slot, Table};

/// A part of the keys, behind one lock.
pub(crate) struct Shard {
    table: Table,
    origins: Origins,
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

/// How long past its expiry an entry is left in its place: a clock that steps back by less meets the very state that was
/// there.
const RECLAIM_GRACE_US: u64 = 1_000_000;
/// A shard sweeps a little of itself once in so many calls,
const CALLS_PER_SWEEP: u32 = 16;
/// this many slots,
const SLOTS_PER_SWEEP: usize = 32;
/// and asks for a sweep of the next shard once in so many, so that quiet shards are swept too.
const CALLS_PER_VISIT: u32 = 64;
/// A visit sweeps so many slots.
pub(crate) const SLOTS_PER_VISIT: usize = 128;

impl Default for Shard {
    fn default() -> Self {
        Self {
            table: Table::default(),
            origins: Origins::default(),
            floor: Timestamp::EPOCH,
            none_expires_before_us: u64::MAX,
            none_passed_expires_before_us: u64::MAX,
            cursor: 0,
            calls: 0,
        }
    }
}

impl Shard {
    /// Runs `step` on the states of `plans` under one key, and keeps what it makes of them.
    pub(crate) fn run<R>(
        &mut self,
        key: Fingerprint,
        plans: &[Plan],
        now: Timestamp,
        counters: &Counters,
        step: impl FnOnce(&mut States, Timestamp) -> R,
    ) -> Result<R, StoreError> {
        let Some(entry) = self.table.get_mut(key) else {
            return self.run_on_none(key, plans, now, counters, step);
        };
        let now = if entry.has_all(plans, &self.origins) {
            now
        } else {
            now.max(self.floor)
        };
        let mut states = entry.take(plans, now, &self.origins);
        let answer = step(&mut states, now);
        match entry.put_back(plans, states, now, &self.origins) {
            None => {
                let expires_at_us = entry.expires_at_us();
                self.note(expires_at_us);
            }
            Some(kept) => self.repack(key, kept, now, counters),
        }
        Ok(answer)
    }

    /// Runs `step`, which may spend but not give back, on the state of one plan under a key that has nothing else, kept
    /// inline and charged at the plan's present rate. `None`, and nothing is run, if that is not so. What
    /// [`run`](Self::run) does, in less time.
    #[inline]
    pub(crate) fn run_inline<R>(
        &mut self,
        key: Fingerprint,
        plan: &Plan,
        now: Timestamp,
        step: impl FnOnce(&mut Option<State>) -> R,
    ) -> Option<R> {
        let Entry::One(inline) = self.table.get_mut(key)? else {
            return None;
        };
        let kind = inline.kind_for(plan, &self.origins)?;
        if !kind.is_of(plan.limit()) {
            return None;
        }
        let mut state = inline.live_state(kind, now);
        let answer = step(&mut state);
        if let Some(state) = &state {
            inline.write(state, kind);
            let expires_at_us = inline.expires_at_us();
            self.note(expires_at_us);
        }
        Some(answer)
    }

    /// Forgets the states of `plans` under one key.
    pub(crate) fn reset(
        &mut self,
        key: Fingerprint,
        plans: &[Plan],
        now: Timestamp,
        counters: &Counters,
    ) {
        if let Some(entry) = self.table.get_mut(key) {
            let mut kept = entry.unpack(&self.origins);
            kept.retain(|kept| plans.iter().all(|plan| *plan.name() != kept.name));
            self.repack(key, kept, now, counters);
        }
    }

    /// Sweeps a little of the shard now and then; says whether it is time to visit another one.
    pub(crate) fn tend(&mut self, now: Timestamp, counters: &Counters) -> bool {
        self.calls = self.calls.wrapping_add(1);
        if self.calls.is_multiple_of(CALLS_PER_SWEEP) {
            self.sweep(SLOTS_PER_SWEEP, now, counters);
        }
        self.calls.is_multiple_of(CALLS_PER_VISIT)
    }

    /// Frees what expired more than the grace ago.
    pub(crate) fn sweep_all(&mut self, now: Timestamp, counters: &Counters) {
        self.restart();
        self.sweep(usize::MAX, now, counters);
    }

    /// Frees what expired more than the grace ago in the next `slots` slots, and the table's own memory if it is mostly
    /// vacant.
    pub(crate) fn sweep(&mut self, slots: usize, now: Timestamp, counters: &Counters) {
        let Some(expired_by_us) = now.as_micros().checked_sub(RECLAIM_GRACE_US) else {
            return;
        };
        if expired_by_us < self.none_expires_before_us {
            return;
        }
        let before = self.table.len();
        for _ in 0..slots {
            match self.table.at(self.cursor).map(Slot::entry) {
                Some(Some(entry)) if entry.expires_at_us() <= expired_by_us => self.reclaim(),
                Some(entry) => self.pass(entry.map(Entry::expires_at_us)),
                None => {
                    self.none_expires_before_us = self.none_passed_expires_before_us;
                    self.restart();
                    self.collect_origins();
                    break;
                }
            }
        }
        counters.release_keys(before - self.table.len());
        let slots_before = self.table.slots();
        self.table.shrink();
        self.note_resize(slots_before, counters);
    }

    fn run_on_none<R>(
        &mut self,
        key: Fingerprint,
        plans: &[Plan],
        now: Timestamp,
        counters: &Counters,
        step: impl FnOnce(&mut States, Timestamp) -> R,
    ) -> Result<R, StoreError> {
        let now = now.max(self.floor);
        let mut states: States = plans.iter().map(|_| None).collect();
        let answer = step(&mut states, now);
        let kept = named(plans, states).collect();
        let Some(entry) = Entry::pack(kept, &mut self.origins) else {
            return Ok(answer);
        };
        if !counters.admit_key() && !self.make_room(now) {
            counters.refuse_key();
            let max_keys = counters.max_keys();
            return Err(StoreError::Full { max_keys });
        }
        self.note(entry.expires_at_us());
        let slots_before = self.table.slots();
        self.table.insert(key, entry);
        self.note_resize(slots_before, counters);
        Ok(answer)
    }

    /// Replaces the entry of a key that has one, leaving out what expired more than the grace ago.
    fn repack(
        &mut self,
        key: Fingerprint,
        mut kept: Vec<Kept>,
        now: Timestamp,
        counters: &Counters,
    ) {
        let expired_by_us = now.as_micros().saturating_sub(RECLAIM_GRACE_US);
        kept.retain(|kept| {
            let expires_at_us = kept.expires_at_us();
            let stays = expires_at_us > expired_by_us;
            if !stays {
                self.floor = raised(self.floor, expires_at_us);
            }
            stays
        });
        let packed = Entry::pack(kept, &mut self.origins);
        if let (Some(packed), Some(entry)) = (packed, self.table.get_mut(key)) {
            *entry = packed;
            let expires_at_us = entry.expires_at_us();
            self.note(expires_at_us);
        } else if let Some(index) = self.table.remove(key) {
            self.cursor -= usize::from(index < self.cursor);
            counters.release_keys(1);
        }
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
                    let expires_at_us = entry.map(Entry::expires_at_us);
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

    /// Notes when an entry that was written expires.
    #[inline]
    fn note(&mut self, expires_at_us: u64) {
        self.none_expires_before_us = self.none_expires_before_us.min(expires_at_us);
        self.none_passed_expires_before_us = self.none_passed_expires_before_us.min(expires_at_us);
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

    /// Begins a sweep at the front again.
    fn restart(&mut self) {
        self.cursor = 0;
        self.none_passed_expires_before_us = u64::MAX;
    }

    /// Removes the expired entry under the cursor.
    fn reclaim(&mut self) {
        if let Some(entry) = self.table.at(self.cursor).and_then(Slot::entry) {
            self.floor = raised(self.floor, entry.expires_at_us());
            self.table.remove_at(self.cursor);
        }
    }

    fn collect_origins(&mut self) {
        if self.origins.is_crowded() {
            let entries = self.table.entries_mut();
            self.origins.collect(entries.filter_map(Entry::origin_mut));
        }
    }
}

fn raised(floor: Timestamp, moment_us: u64) -> Timestamp {
    floor.max(Timestamp::from_micros(moment_us).unwrap_or(Timestamp::MAX))
}
