//! The fixed window: a count, and when it ends.

use super::ChargePart;
use crate::limit::FixedRule;
use crate::{Cost, Timestamp};

/// What a fixed window remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedState {
    began: Timestamp,
    ends_at_us: u64,
    used: u32,
}

impl FixedState {
    /// Puts a state together again from the numbers that a store kept.
    ///
    /// `None` if they are none that the math makes: a store that reads them holds a corrupt value.
    #[must_use]
    pub fn from_parts(began: Timestamp, ends_at_us: u64, used: u32) -> Option<Self> {
        let sound = ends_at_us > began.as_micros() && ends_at_us < 1 << 53 && used > 0;
        sound.then_some(Self {
            began,
            ends_at_us,
            used,
        })
    }

    /// Returns when the window began.
    #[must_use]
    pub const fn began(&self) -> Timestamp {
        self.began
    }

    /// Returns the microsecond since the epoch at which the window ends.
    #[must_use]
    pub const fn ends_at_us(&self) -> u64 {
        self.ends_at_us
    }

    /// Returns the units spent in it.
    #[must_use]
    pub const fn used(&self) -> u32 {
        self.used
    }

    /// Returns the window after `part` was given back, or `None` if nothing is left in it. A charge of an earlier window is past.
    pub(super) fn refund(
        &self,
        rule: &FixedRule,
        now: Timestamp,
        part: ChargePart,
    ) -> Option<Self> {
        if now.as_micros() >= rule.ends_at_us(self) || part.charged_at < self.began {
            return Some(*self);
        }
        let used = self.used.saturating_sub(part.units);
        (used > 0).then_some(Self { used, ..*self })
    }
}

impl FixedRule {
    pub(crate) fn admits(&self, state: Option<&FixedState>, now: Timestamp, cost: Cost) -> bool {
        cost.get() <= self.remaining(state, now)
    }

    /// Returns the first moment, not before `now`, at which `cost` fits if nobody spends.
    pub(crate) fn admits_at_us(
        &self,
        state: Option<&FixedState>,
        now: Timestamp,
        cost: Cost,
    ) -> u64 {
        match state {
            Some(state) if !self.admits(Some(state), now, cost) => self.ends_at_us(state),
            _ => now.as_micros(),
        }
    }

    /// Returns when the window ends: as long after it began as this plan says, or as the plan said that left it.
    pub(crate) fn ends_at_us(&self, state: &FixedState) -> u64 {
        let ends_at_us = state.began.as_micros() + self.window_us();
        ends_at_us.min(state.ends_at_us)
    }

    /// Returns the window after `cost` was spent in it; a new one if the last has ended.
    ///
    /// A window that was begun under a longer plan is remembered for as long as that plan says: another release may still
    /// run with it.
    pub(crate) fn spend(
        &self,
        state: Option<&FixedState>,
        now: Timestamp,
        cost: Cost,
    ) -> FixedState {
        match self.running(state, now) {
            Some(state) => FixedState {
                began: state.began,
                ends_at_us: state
                    .ends_at_us
                    .max(state.began.as_micros() + self.window_us()),
                used: state.used.saturating_add(cost.get()),
            },
            None => FixedState {
                began: now,
                ends_at_us: now.as_micros() + self.window_us(),
                used: cost.get(),
            },
        }
    }

    /// Returns the units that still fit.
    pub(crate) fn remaining(&self, state: Option<&FixedState>, now: Timestamp) -> u32 {
        let used = self.running(state, now).map_or(0, |state| state.used);
        self.limit().saturating_sub(used)
    }

    fn running<'a>(&self, state: Option<&'a FixedState>, now: Timestamp) -> Option<&'a FixedState> {
        state.filter(|state| now.as_micros() < self.ends_at_us(state))
    }
}
