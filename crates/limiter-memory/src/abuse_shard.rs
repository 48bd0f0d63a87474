//! [`AbuseShard`]: a part of the keys, with their attempts and blocks.

use limiter_core::abuse::AbuseState;
use limiter_core::{StoreError, Timestamp};

use crate::counters::Counters;
use crate::fingerprint::Fingerprint;
use crate::sharded::Shard;
use crate::table::Entry;
use crate::tracked::{SLOTS_PER_SWEEP, Tracked};

/// A part of the keys of a [`MemoryAbuseStore`](crate::MemoryAbuseStore), behind one lock.
#[derive(Default)]
pub(crate) struct AbuseShard {
    tracked: Tracked<AbuseEntry>,
}

/// All that is remembered of one key under one policy, in a box that the math works in; no box in a vacant slot.
pub(crate) struct AbuseEntry(Option<Box<Option<AbuseState>>>);

impl Entry for AbuseEntry {
    const NONE: Self = Self(None);

    fn expires_at_us(&self) -> u64 {
        self.state().map_or(0, AbuseState::expires_at_us)
    }
}

impl AbuseEntry {
    fn state(&self) -> Option<&AbuseState> {
        self.0.as_ref()?.as_ref().as_ref()
    }
}

impl AbuseShard {
    /// Runs `look` on the state under one key. An outlived state means the same as none.
    pub(crate) fn look<R>(
        &mut self,
        key: Fingerprint,
        now: Timestamp,
        look: impl FnOnce(Option<&AbuseState>, Timestamp) -> R,
    ) -> R {
        let time_of_none = self.tracked.time_of_none(now);
        match self.tracked.get_mut(key) {
            Some(entry) => look(entry.state(), now),
            None => look(None, time_of_none),
        }
    }

    /// Runs `step` on the state under one key, and keeps what it makes of it.
    pub(crate) fn run<R>(
        &mut self,
        key: Fingerprint,
        now: Timestamp,
        counters: &Counters,
        step: impl FnOnce(&mut Option<AbuseState>, Timestamp) -> R,
    ) -> Result<R, StoreError> {
        let time_of_none = self.tracked.time_of_none(now);
        let Some(state) = self.tracked.get_mut(key).and_then(|entry| entry.0.as_mut()) else {
            return self.run_on_none(key, time_of_none, counters, step);
        };
        let answer = step(state, now);
        match state.as_ref().as_ref().map(AbuseState::expires_at_us) {
            Some(expires_at_us) => self.tracked.note(expires_at_us),
            None => self.tracked.remove(key, counters),
        }
        Ok(answer)
    }

    fn run_on_none<R>(
        &mut self,
        key: Fingerprint,
        now: Timestamp,
        counters: &Counters,
        step: impl FnOnce(&mut Option<AbuseState>, Timestamp) -> R,
    ) -> Result<R, StoreError> {
        let mut state = None;
        let answer = step(&mut state, now);
        if state.is_some() {
            let entry = AbuseEntry(Some(Box::new(state)));
            self.tracked.insert(key, entry, now, counters)?;
        }
        Ok(answer)
    }
}

impl Shard for AbuseShard {
    type Entry = AbuseEntry;

    fn tend(&mut self, now: Timestamp, counters: &Counters) -> bool {
        let due = self.tracked.count_call();
        if due.sweep {
            self.sweep(SLOTS_PER_SWEEP, now, counters);
        }
        due.visit
    }

    fn sweep(&mut self, slots: usize, now: Timestamp, counters: &Counters) {
        self.tracked.sweep(slots, now, counters);
    }

    fn restart(&mut self) {
        self.tracked.restart();
    }
}
