//! [`PlanShard`]: a part of the keys, decided one at a time.

use limiter_core::math::State;
use limiter_core::{Plan, StoreError, Timestamp};

use crate::counters::Counters;
use crate::fingerprint::Fingerprint;
use crate::origins::Origins;
use crate::plan_entry::{Kept, PlanEntry, States, named};
use crate::sharded::Shard;
use crate::table::Entry;
use crate::tracked::{SLOTS_PER_SWEEP, Swept, Tracked};

/// A part of the keys of a [`MemoryStore`](crate::MemoryStore), behind one lock.
#[derive(Default)]
pub(crate) struct PlanShard {
    tracked: Tracked<PlanEntry>,
    origins: Origins,
}

impl PlanShard {
    /// Runs `step` on the states of `plans` under one key, and keeps what it makes of them.
    pub(crate) fn run<R>(
        &mut self,
        key: Fingerprint,
        plans: &[Plan],
        now: Timestamp,
        counters: &Counters,
        step: impl FnOnce(&mut States, Timestamp) -> R,
    ) -> Result<R, StoreError> {
        let time_of_none = self.tracked.time_of_none(now);
        let Some(entry) = self.tracked.get_mut(key) else {
            return self.run_on_none(key, plans, time_of_none, counters, step);
        };
        let now = if entry.has_all(plans, &self.origins) {
            now
        } else {
            time_of_none
        };
        let mut states = entry.take(plans, now, &self.origins);
        let answer = step(&mut states, now);
        match entry.put_back(plans, states, now, &self.origins) {
            None => {
                let expires_at_us = entry.expires_at_us();
                self.tracked.note(expires_at_us);
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
        let PlanEntry::One(inline) = self.tracked.get_mut(key)? else {
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
            self.tracked.note(expires_at_us);
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
        if let Some(entry) = self.tracked.get_mut(key) {
            let mut kept = entry.unpack(&self.origins);
            kept.retain(|kept| plans.iter().all(|plan| *plan.name() != kept.name));
            self.repack(key, kept, now, counters);
        }
    }

    fn run_on_none<R>(
        &mut self,
        key: Fingerprint,
        plans: &[Plan],
        now: Timestamp,
        counters: &Counters,
        step: impl FnOnce(&mut States, Timestamp) -> R,
    ) -> Result<R, StoreError> {
        let mut states: States = plans.iter().map(|_| None).collect();
        let answer = step(&mut states, now);
        let kept = named(plans, states).collect();
        if let Some(entry) = PlanEntry::pack(kept, &mut self.origins) {
            self.tracked.insert(key, entry, now, counters)?;
        }
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
        kept.retain(|kept| self.tracked.stays(kept.expires_at_us(), now));
        let packed = PlanEntry::pack(kept, &mut self.origins);
        if let (Some(packed), Some(entry)) = (packed, self.tracked.get_mut(key)) {
            *entry = packed;
            let expires_at_us = entry.expires_at_us();
            self.tracked.note(expires_at_us);
        } else {
            self.tracked.remove(key, counters);
        }
    }

    fn collect_origins(&mut self) {
        if self.origins.is_crowded() {
            let entries = self.tracked.entries_mut();
            self.origins
                .collect(entries.filter_map(PlanEntry::origin_mut));
        }
    }
}

impl Shard for PlanShard {
    type Entry = PlanEntry;

    fn tend(&mut self, now: Timestamp, counters: &Counters) -> bool {
        let due = self.tracked.count_call();
        if due.sweep {
            self.sweep(SLOTS_PER_SWEEP, now, counters);
        }
        due.visit
    }

    fn sweep(&mut self, slots: usize, now: Timestamp, counters: &Counters) {
        if self.tracked.sweep(slots, now, counters) == Swept::ToTheEnd {
            self.collect_origins();
        }
    }

    fn restart(&mut self) {
        self.tracked.restart();
    }
}
