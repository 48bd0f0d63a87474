//! [`Shard`]: a part of the keys, decided one at a time.

use limiter_core::math::{BucketDecision, BucketState};
use limiter_core::{BucketRule, Plan, PlanName, StoreError, Timestamp};

use crate::counters::Counters;
use crate::entry::Entry;
use crate::fingerprint::Fingerprint;
use crate::keeper::{Keeper, Settled};
use crate::kept::{Kept, States, named};
use crate::table::{Table, entry as entry_in, held, set_entry};

/// A part of the keys, behind one lock.
///
/// What every call needs comes first, in as few cache lines as it fits: hence the fixed order.
#[repr(C)]
pub(crate) struct Shard {
    calls: u32,
    /// No entry that the sweep has passed since it last began at the front expires before this.
    none_passed_expires_before_us: u64,
    table: Table,
    keeper: Keeper,
    /// What was reclaimed had expired by then: an absent key is decided no earlier, so that a clock that steps back
    /// grants nothing twice.
    floor: Timestamp,
    /// No entry expires before this. Never later than what the sweep has passed.
    none_expires_before_us: u64,
    cursor: usize,
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
            calls: 0,
            none_passed_expires_before_us: u64::MAX,
            table: Table::default(),
            keeper: Keeper::default(),
            floor: Timestamp::EPOCH,
            none_expires_before_us: u64::MAX,
            cursor: 0,
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
        let Some((index, entry)) = self.table.find(key) else {
            return self.run_on_none(key, plans, now, counters, step);
        };
        let now = if self.keeper.has_all(entry, plans) {
            now
        } else {
            now.max(self.floor)
        };
        let mut states = self.keeper.take(entry, plans, now);
        let answer = step(&mut states, now);
        match self.keeper.put_back(entry, plans, states, now) {
            Settled::InPlace(entry) => self.set(index, entry),
            Settled::Anew(kept) => self.replace(index, kept, now, counters),
        }
        Ok(answer)
    }

    /// Decides a request under one token bucket, if all there is under `key` is a state of it, charged at its present
    /// rate; else `None`, and nothing is done. What [`run`](Self::run) does, in a fraction of the time: nearly all calls
    /// are of this kind.
    #[inline]
    pub(crate) fn decide_bucket(
        &mut self,
        key: Fingerprint,
        name: &PlanName,
        rule: &BucketRule,
        now: Timestamp,
        decide: impl FnOnce(Option<BucketState>) -> BucketDecision,
    ) -> Option<BucketDecision> {
        let slot = self.table.slot_of(key)?;
        let entry = entry_in(slot);
        let origin = self.keeper.origin_of_bucket(entry, name, rule)?;
        let live = entry.expires_at_us() > now.as_micros();
        let state = live.then(|| entry.bucket(rule.rate())).flatten();
        let decision = decide(state);
        if let Some(state) = decision.state {
            let entry = Entry::of_bucket(&state, origin)?;
            set_entry(slot, entry);
            self.note(entry.expires_at_us());
        }
        Some(decision)
    }

    /// Forgets the states of `plans` under one key.
    pub(crate) fn reset(
        &mut self,
        key: Fingerprint,
        plans: &[Plan],
        now: Timestamp,
        counters: &Counters,
    ) {
        if let Some((index, entry)) = self.table.find(key) {
            let mut kept = self.keeper.unpack(entry);
            kept.retain(|kept| plans.iter().all(|plan| *plan.name() != kept.name));
            self.replace(index, kept, now, counters);
        }
    }

    /// Counts a call; says whether it is time to [`tend`](Self::tend) the shard.
    #[inline]
    pub(crate) fn is_due_after_this_call(&mut self) -> bool {
        self.calls = self.calls.wrapping_add(1);
        self.calls.is_multiple_of(CALLS_PER_SWEEP)
    }

    /// Sweeps a little of the shard; says whether it is time to visit another one.
    pub(crate) fn tend(&mut self, now: Timestamp, counters: &Counters) -> bool {
        self.sweep(SLOTS_PER_SWEEP, now, counters);
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
            match self.table.slots().get(self.cursor).map(held) {
                Some(Some(entry)) if entry.expires_at_us() <= expired_by_us => {
                    self.reclaim(self.cursor, entry);
                }
                Some(entry) => self.pass(entry),
                None => {
                    self.end_pass(counters);
                    break;
                }
            }
        }
        counters.release_keys(before - self.table.len());
    }

    /// Ends a sweep: what is left is spread evenly, and may fit a smaller table.
    fn end_pass(&mut self, counters: &Counters) {
        self.none_expires_before_us = self.none_passed_expires_before_us;
        self.restart();
        let slots_before = self.table.slots().len();
        self.table.shrink();
        self.note_resize(slots_before, counters);
        let table = &mut self.table;
        self.keeper
            .collect_origins(|rename| table.replace_all(rename));
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
        let Some(entry) = self.keeper.pack(kept) else {
            return Ok(answer);
        };
        if !counters.admit_key() && !self.make_room(key, now) {
            self.keeper.free(entry);
            counters.refuse_key();
            let max_keys = counters.max_keys();
            return Err(StoreError::Full { max_keys });
        }
        self.note(entry.expires_at_us());
        let slots_before = self.table.slots().len();
        self.table.insert(key, entry);
        self.note_resize(slots_before, counters);
        Ok(answer)
    }

    /// Replaces an entry.
    #[inline]
    fn set(&mut self, index: usize, entry: Entry) {
        self.note(entry.expires_at_us());
        self.table.set(index, entry);
    }

    /// Replaces an entry that was unpacked, leaving out what expired more than the grace ago.
    fn replace(&mut self, index: usize, mut kept: Vec<Kept>, now: Timestamp, counters: &Counters) {
        let expired_by_us = now.as_micros().saturating_sub(RECLAIM_GRACE_US);
        kept.retain(|kept| {
            let expires_at_us = kept.expires_at_us();
            let stays = expires_at_us > expired_by_us;
            if !stays {
                self.floor = raised(self.floor, expires_at_us);
            }
            stays
        });
        if let Some(entry) = self.keeper.pack(kept) {
            self.set(index, entry);
        } else {
            self.remove(index);
            counters.release_keys(1);
        }
    }

    /// Makes room for a new key by reclaiming one that has expired, without the grace; `false` if none has.
    ///
    /// The search begins where the new key will live, so that the table stays evenly filled. One in vain leaves behind
    /// when to try again, so that a flood of new keys costs no search each.
    fn make_room(&mut self, key: Fingerprint, now: Timestamp) -> bool {
        let now_us = now.as_micros();
        if now_us < self.none_expires_before_us {
            return false;
        }
        let mut earliest_us = u64::MAX;
        let mut entries = self
            .table
            .slots_from_home(key)
            .filter_map(|(index, slot)| held(slot).map(|entry| (index, entry)));
        let expired = entries.find(|(_, entry)| {
            earliest_us = earliest_us.min(entry.expires_at_us());
            earliest_us <= now_us
        });
        drop(entries);
        if let Some((index, entry)) = expired {
            self.reclaim(index, entry);
            return true;
        }
        self.none_expires_before_us = earliest_us;
        self.restart();
        false
    }

    /// Notes when an entry that was written expires.
    #[inline]
    fn note(&mut self, expires_at_us: u64) {
        if expires_at_us < self.none_passed_expires_before_us {
            self.none_passed_expires_before_us = expires_at_us;
            self.none_expires_before_us = self.none_expires_before_us.min(expires_at_us);
        }
    }

    /// Notes that the table may have been rebuilt, and every entry be elsewhere.
    fn note_resize(&mut self, slots_before: usize, counters: &Counters) {
        let slots = self.table.slots().len();
        if slots != slots_before {
            counters.resize(slots_before, slots);
            self.restart();
        }
    }

    /// Moves the cursor past a slot, and what it holds.
    fn pass(&mut self, entry: Option<Entry>) {
        let expires_at_us = entry.map_or(u64::MAX, |entry| entry.expires_at_us());
        self.none_passed_expires_before_us = self.none_passed_expires_before_us.min(expires_at_us);
        self.cursor += 1;
    }

    /// Begins a sweep at the front again.
    fn restart(&mut self) {
        self.cursor = 0;
        self.none_passed_expires_before_us = u64::MAX;
    }

    /// Removes an expired entry.
    fn reclaim(&mut self, index: usize, entry: Entry) {
        self.floor = raised(self.floor, entry.expires_at_us());
        self.keeper.free(entry);
        self.remove(index);
    }

    /// Removes an entry; should that move one that the sweep has yet to see to where it has been, it goes back a step.
    fn remove(&mut self, index: usize) {
        self.table.remove_at(index);
        self.cursor -= usize::from(index < self.cursor);
    }
}

fn raised(floor: Timestamp, moment_us: u64) -> Timestamp {
    floor.max(Timestamp::from_micros(moment_us).unwrap_or(Timestamp::MAX))
}
