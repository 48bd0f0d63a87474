//! The fixed window: a count, and when it ends; a few of them while plans with other windows take
//! turns.

use smallvec::SmallVec;

use super::ChargePart;
use crate::limit::FixedRule;
use crate::{Cost, Timestamp};

/// What a fixed window remembers: one window, unless the plan has changed to a shorter one while it
/// ran. Then the longer one goes on counting beside those that follow, for another release may
/// still run with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedState {
    /// The oldest in front, never empty.
    windows: SmallVec<[CountedWindow; 1]>,
}

/// A window that counts all that is spent from when it began until it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedWindow {
    /// When its first unit was spent.
    pub began: Timestamp,
    /// The microsecond since the epoch at which it ends by the longest of the plans that found it
    /// running.
    pub ends_at_us: u64,
    /// The units spent in it.
    pub used: u32,
}

impl FixedState {
    /// The most windows that are kept: one for each plan with a window of its own that is in use
    /// beside others. If one more is needed, the one that ends first is forgotten.
    pub const MOST_WINDOWS: usize = 4;
    /// The most units that are counted. More than any limit, and stores have a bit to spare.
    pub const MOST_USED: u32 = u32::MAX >> 1;

    /// Puts a state together again from the windows that a store kept, the oldest in front.
    ///
    /// `None` if they are none that the math makes: a store that reads them holds a corrupt value.
    #[must_use]
    pub fn from_windows(windows: impl IntoIterator<Item = CountedWindow>) -> Option<Self> {
        let windows: SmallVec<[CountedWindow; 1]> = windows.into_iter().collect();
        let is_sound = |window: &CountedWindow| {
            window.ends_at_us > window.began.as_micros()
                && window.ends_at_us < 1 << 53
                && (1..=Self::MOST_USED).contains(&window.used)
        };
        let sound = (1..=Self::MOST_WINDOWS).contains(&windows.len())
            && windows.iter().all(is_sound)
            && windows.is_sorted_by(|older, newer| older.began < newer.began);
        sound.then_some(Self { windows })
    }

    /// Returns the windows, the oldest in front.
    #[must_use]
    pub fn windows(&self) -> &[CountedWindow] {
        &self.windows
    }

    /// Returns when the newest window began.
    pub(super) fn newest_began(&self) -> Timestamp {
        let newest = self.windows.last();
        newest.map_or(Timestamp::EPOCH, |window| window.began)
    }

    /// Returns the moment from which on the state means nothing.
    pub(super) fn expires_at_us(&self) -> u64 {
        let ends = self.windows.iter().map(|window| window.ends_at_us);
        ends.max().unwrap_or(0)
    }

    /// Returns the windows after `part` was given back to those that counted it, or `None` if
    /// nothing is left in any. A charge from before the windows that run for this plan is past.
    pub(super) fn refund(
        mut self,
        rule: &FixedRule,
        now: Timestamp,
        part: ChargePart,
    ) -> Option<Self> {
        let counted = |window: &CountedWindow| part.charged_at >= window.began;
        if !rule.running(&self, now).any(counted) {
            return Some(self);
        }
        for window in self.windows.iter_mut().filter(|window| counted(window)) {
            window.used = window.used.saturating_sub(part.units);
        }
        self.windows
            .retain(|window| now.as_micros() < window.ends_at_us && window.used > 0);
        (!self.windows.is_empty()).then_some(self)
    }
}

impl FixedRule {
    pub(crate) fn admits(&self, state: Option<&FixedState>, now: Timestamp, cost: Cost) -> bool {
        cost.get() <= self.remaining(state, now)
    }

    /// Returns the first moment, not before `now`, at which `cost` fits if nobody spends: when the
    /// last of the windows has ended in which it does not.
    pub(crate) fn admits_at_us(
        &self,
        state: Option<&FixedState>,
        now: Timestamp,
        cost: Cost,
    ) -> u64 {
        let running = state.into_iter().flat_map(|state| self.running(state, now));
        let full = running.filter(|window| self.limit().saturating_sub(window.used) < cost.get());
        let ends = full.map(|window| self.end_of(window));
        ends.max().unwrap_or(now.as_micros())
    }

    /// Returns when the last of the windows ends.
    pub(crate) fn ends_at_us(&self, state: &FixedState) -> u64 {
        let ends = state.windows.iter().map(|window| self.end_of(window));
        ends.max().unwrap_or(0)
    }

    /// Returns the windows after `cost` was spent in all of them, and in a new one if none runs for
    /// this plan.
    ///
    /// A window that was begun under a longer plan is remembered for as long as that plan says: another release may still
    /// run with it.
    pub(crate) fn spend(
        &self,
        state: Option<&FixedState>,
        now: Timestamp,
        cost: Cost,
    ) -> FixedState {
        let kept = state.into_iter().flat_map(FixedState::windows);
        let kept = kept.filter(|window| now.as_micros() < window.ends_at_us);
        let mut windows: SmallVec<[CountedWindow; 1]> = kept.copied().collect();
        if let Some(oldest) = windows.iter_mut().find(|window| self.runs(window, now)) {
            let end_us = oldest.began.as_micros() + self.window_us();
            oldest.ends_at_us = oldest.ends_at_us.max(end_us);
        } else {
            if windows.len() == FixedState::MOST_WINDOWS {
                forget_the_first_to_end(&mut windows);
            }
            windows.push(CountedWindow {
                began: now,
                ends_at_us: now.as_micros() + self.window_us(),
                used: 0,
            });
        }
        for window in &mut windows {
            let used = window.used.saturating_add(cost.get());
            window.used = used.min(FixedState::MOST_USED);
        }
        FixedState { windows }
    }

    /// Returns the units that still fit.
    pub(crate) fn remaining(&self, state: Option<&FixedState>, now: Timestamp) -> u32 {
        let running = state.into_iter().flat_map(|state| self.running(state, now));
        let used = running.map(|window| window.used).max();
        self.limit().saturating_sub(used.unwrap_or(0))
    }

    fn running<'a>(
        &self,
        state: &'a FixedState,
        now: Timestamp,
    ) -> impl Iterator<Item = &'a CountedWindow> {
        let windows = state.windows.iter();
        windows.filter(move |window| self.runs(window, now))
    }

    fn runs(&self, window: &CountedWindow, now: Timestamp) -> bool {
        now.as_micros() < self.end_of(window)
    }

    /// Returns when a window ends: as long after it began as this plan says, or when it does by the
    /// plans that left it.
    fn end_of(&self, window: &CountedWindow) -> u64 {
        let end_us = window.began.as_micros() + self.window_us();
        end_us.min(window.ends_at_us)
    }
}

/// Removes the window that ends first; of two, the older one.
fn forget_the_first_to_end(windows: &mut SmallVec<[CountedWindow; 1]>) {
    let ends = windows.iter().enumerate();
    let first = ends.min_by_key(|(_, window)| window.ends_at_us);
    if let Some((nth, _)) = first {
        windows.remove(nth);
    }
}
