//! [`AttemptShard`]: a part of the keys, with their attempts and blocks.

use std::collections::BTreeMap;
use std::ops::Bound;

use limiter_core::abuse::AbuseState;
use limiter_core::{StoreError, Timestamp};

use crate::counters::Counters;
use crate::fingerprint::Fingerprint;

/// A part of the keys, behind one lock.
pub(super) struct AttemptShard {
    /// States in boxes that the math works in.
    states: BTreeMap<Fingerprint, Box<Option<AbuseState>>>,
    /// What was reclaimed had expired by then: an absent key is decided no earlier, so that a clock that steps back
    /// forgets nothing.
    floor: Timestamp,
    /// No state expires before this.
    none_expires_before_us: u64,
    /// No state that the sweep has passed since it last began at the front expires before this.
    none_passed_expires_before_us: u64,
    /// The last key that the sweep has passed.
    passed: Option<Fingerprint>,
    calls: u32,
}

/// How long past its expiry a state is left in its place: a clock that steps back by less meets the very state that was
/// there.
const RECLAIM_GRACE_US: u64 = 1_000_000;
/// A shard sweeps a little of itself once in so many calls,
const CALLS_PER_SWEEP: u32 = 16;
/// this many states,
const STATES_PER_SWEEP: usize = 32;
/// and asks for a sweep of the next shard once in so many, so that quiet shards are swept too.
const CALLS_PER_VISIT: u32 = 64;
/// A visit sweeps so many states.
pub(super) const STATES_PER_VISIT: usize = 128;

impl Default for AttemptShard {
    fn default() -> Self {
        Self {
            states: BTreeMap::new(),
            floor: Timestamp::EPOCH,
            none_expires_before_us: u64::MAX,
            none_passed_expires_before_us: u64::MAX,
            passed: None,
            calls: 0,
        }
    }
}

impl AttemptShard {
    /// Runs `look` on the state under one key. An outlived state means the same as none.
    pub(super) fn look<R>(
        &self,
        key: Fingerprint,
        now: Timestamp,
        look: impl FnOnce(Option<&AbuseState>, Timestamp) -> R,
    ) -> R {
        match self.states.get(&key) {
            Some(state) => look(state.as_ref().as_ref(), now),
            None => look(None, now.max(self.floor)),
        }
    }

    /// Runs `step` on the state under one key, and keeps what it makes of it.
    pub(super) fn run<R>(
        &mut self,
        key: Fingerprint,
        now: Timestamp,
        counters: &Counters,
        step: impl FnOnce(&mut Option<AbuseState>, Timestamp) -> R,
    ) -> Result<R, StoreError> {
        let Some(state) = self.states.get_mut(&key) else {
            return self.run_on_none(key, now.max(self.floor), counters, step);
        };
        let answer = step(state, now);
        if let Some(expires_at_us) = state.as_ref().as_ref().map(AbuseState::expires_at_us) {
            self.note(expires_at_us);
        } else {
            self.states.remove(&key);
            counters.release_keys(1);
        }
        Ok(answer)
    }

    /// Sweeps a little of the shard now and then; says whether it is time to visit another one.
    pub(super) fn tend(&mut self, now: Timestamp, counters: &Counters) -> bool {
        self.calls = self.calls.wrapping_add(1);
        if self.calls.is_multiple_of(CALLS_PER_SWEEP) {
            self.sweep(STATES_PER_SWEEP, now, counters);
        }
        self.calls.is_multiple_of(CALLS_PER_VISIT)
    }

    /// Frees what expired more than the grace ago.
    pub(super) fn sweep_all(&mut self, now: Timestamp, counters: &Counters) {
        self.restart();
        self.sweep(usize::MAX, now, counters);
    }

    /// Frees what expired more than the grace ago among the next `count` states.
    pub(super) fn sweep(&mut self, count: usize, now: Timestamp, counters: &Counters) {
        let Some(expired_by_us) = now.as_micros().checked_sub(RECLAIM_GRACE_US) else {
            return;
        };
        if expired_by_us < self.none_expires_before_us {
            return;
        }
        for _ in 0..count {
            let Some((key, expires_at_us)) = self.next() else {
                self.none_expires_before_us = self.none_passed_expires_before_us;
                self.restart();
                break;
            };
            if expires_at_us <= expired_by_us {
                self.reclaim(key, expires_at_us);
                counters.release_keys(1);
            } else {
                self.pass(key, expires_at_us);
            }
        }
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
        if let Some(expires_at_us) = state.as_ref().map(AbuseState::expires_at_us) {
            if !counters.admit_key() && !self.make_room(now) {
                counters.refuse_key();
                let max_keys = counters.max_keys();
                return Err(StoreError::Full { max_keys });
            }
            self.states.insert(key, Box::new(state));
            self.note(expires_at_us);
        }
        Ok(answer)
    }

    /// Makes room for a new key by reclaiming one that has expired, without the grace; `false` if none has.
    ///
    /// A scan in vain leaves behind when to try again, so that a flood of new keys costs no scan each.
    fn make_room(&mut self, now: Timestamp) -> bool {
        if now.as_micros() < self.none_expires_before_us {
            return false;
        }
        let mut earliest_us = u64::MAX;
        for _ in 0..=self.states.len() {
            match self.next() {
                Some((key, expires_at_us)) if expires_at_us <= now.as_micros() => {
                    self.reclaim(key, expires_at_us);
                    return true;
                }
                Some((key, expires_at_us)) => {
                    earliest_us = earliest_us.min(expires_at_us);
                    self.pass(key, expires_at_us);
                }
                None => self.restart(),
            }
        }
        self.none_expires_before_us = earliest_us;
        self.restart();
        false
    }

    /// Returns the next key that the sweep comes to, and when its state expires; `None` at the end.
    fn next(&self) -> Option<(Fingerprint, u64)> {
        let from = self.passed.map_or(Bound::Unbounded, Bound::Excluded);
        let (key, state) = self.states.range((from, Bound::Unbounded)).next()?;
        let state = state.as_ref().as_ref();
        Some((*key, state.map_or(0, AbuseState::expires_at_us)))
    }

    /// Moves the sweep past a key whose state expires then.
    fn pass(&mut self, key: Fingerprint, expires_at_us: u64) {
        self.none_passed_expires_before_us = self.none_passed_expires_before_us.min(expires_at_us);
        self.passed = Some(key);
    }

    /// Begins a sweep at the front again.
    fn restart(&mut self) {
        self.passed = None;
        self.none_passed_expires_before_us = u64::MAX;
    }

    /// Notes when a state that was written expires.
    fn note(&mut self, expires_at_us: u64) {
        self.none_expires_before_us = self.none_expires_before_us.min(expires_at_us);
        self.none_passed_expires_before_us = self.none_passed_expires_before_us.min(expires_at_us);
    }

    /// Removes a state that has expired.
    fn reclaim(&mut self, key: Fingerprint, expires_at_us: u64) {
        let moment = Timestamp::from_micros(expires_at_us).unwrap_or(Timestamp::MAX);
        self.floor = self.floor.max(moment);
        self.states.remove(&key);
    }
}
