//! [`State`]: what is remembered of one key under one plan, and what each limit makes of it.

use super::{BucketState, ChargePart, Draw, FixedState, Suppression, WindowLog};
use crate::{Cost, Limit, Timestamp};

/// What a store remembers of one key under one plan. No state at all means: never used, or as good as that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Of a token bucket.
    TokenBucket(BucketState),
    /// Of a sliding window.
    SlidingWindow(WindowLog),
    /// Of a suppressing window: what was observed.
    SuppressingWindow(WindowLog),
    /// Of a fixed window.
    FixedWindow(FixedState),
}

impl State {
    /// Returns the microsecond since the epoch from which on this state equals no state, whatever the plan is by then. A time
    /// to live may end then.
    #[must_use]
    pub fn expires_at_us(&self) -> u64 {
        match self {
            Self::TokenBucket(state) => state.expires_at_us(),
            Self::SlidingWindow(log) | Self::SuppressingWindow(log) => log.expires_at_us(),
            Self::FixedWindow(state) => state.expires_at_us(),
        }
    }

    /// Returns `now` as this state counts time: a clock that stepped back stands still.
    pub(super) fn as_of(&self, now: Timestamp) -> Timestamp {
        now.max(match self {
            Self::TokenBucket(state) => state.seen(),
            Self::SlidingWindow(log) | Self::SuppressingWindow(log) => log.seen(),
            Self::FixedWindow(state) => state.newest_began(),
        })
    }

    /// Returns whether the state was left by the algorithm of `limit`.
    #[must_use]
    pub const fn belongs_to(&self, limit: &Limit) -> bool {
        matches!(
            (self, limit),
            (Self::TokenBucket(_), Limit::TokenBucket(_))
                | (Self::SlidingWindow(_), Limit::SlidingWindow(_))
                | (Self::SuppressingWindow(_), Limit::SuppressingWindow(_))
                | (Self::FixedWindow(_), Limit::FixedWindow(_))
        )
    }

    const fn bucket(&self) -> Option<&BucketState> {
        if let Self::TokenBucket(state) = self {
            Some(state)
        } else {
            None
        }
    }

    const fn sliding(&self) -> Option<&WindowLog> {
        if let Self::SlidingWindow(log) = self {
            Some(log)
        } else {
            None
        }
    }

    const fn observed(&self) -> Option<&WindowLog> {
        if let Self::SuppressingWindow(log) = self {
            Some(log)
        } else {
            None
        }
    }

    const fn fixed(&self) -> Option<&FixedState> {
        if let Self::FixedWindow(state) = self {
            Some(state)
        } else {
            None
        }
    }
}

/// The pure math of one plan. A state of another algorithm counts as none.
impl Limit {
    /// Returns whether `cost` is admitted, and the share of requests being refused.
    #[inline]
    pub(super) fn admits(
        &self,
        state: Option<&State>,
        now: Timestamp,
        cost: Cost,
        draw: Draw,
    ) -> (bool, Suppression) {
        let plainly = |admits| (admits, Suppression::NONE);
        match self {
            Self::TokenBucket(rule) => {
                plainly(rule.admits(state.and_then(State::bucket), now, cost))
            }
            Self::SlidingWindow(rule) => {
                plainly(rule.admits(state.and_then(State::sliding), now, cost))
            }
            Self::SuppressingWindow(rule) => {
                rule.admits(state.and_then(State::observed), now, cost, draw)
            }
            Self::FixedWindow(rule) => {
                plainly(rule.admits(state.and_then(State::fixed), now, cost))
            }
        }
    }

    /// Returns the first moment, not before `now`, at which `cost` is certain to be admitted if nobody asks.
    #[inline]
    pub(super) fn admits_at_us(&self, state: Option<&State>, now: Timestamp, cost: Cost) -> u64 {
        match self {
            Self::TokenBucket(rule) => rule.admits_at_us(state.and_then(State::bucket), now, cost),
            Self::SlidingWindow(rule) => {
                rule.admits_at_us(state.and_then(State::sliding), now, cost)
            }
            Self::SuppressingWindow(rule) => {
                rule.admits_at_us(state.and_then(State::observed), now, cost)
            }
            Self::FixedWindow(rule) => rule.admits_at_us(state.and_then(State::fixed), now, cost),
        }
    }

    /// Charges a request that is admitted, or that a suppressing window observes.
    #[inline]
    pub(super) fn spend(&self, state: &mut Option<State>, now: Timestamp, cost: Cost) {
        match self {
            Self::TokenBucket(rule) => {
                let bucket = rule.spend(state.as_ref().and_then(State::bucket), now, cost);
                *state = Some(State::TokenBucket(bucket));
            }
            Self::SlidingWindow(rule) => {
                let log = match state.take() {
                    Some(State::SlidingWindow(log)) => Some(log),
                    _ => None,
                };
                *state = Some(State::SlidingWindow(WindowLog::add(log, rule, now, cost)));
            }
            Self::SuppressingWindow(rule) => {
                let log = match state.take() {
                    Some(State::SuppressingWindow(log)) => Some(log),
                    _ => None,
                };
                let log = WindowLog::add(log, rule.soft(), now, cost);
                *state = Some(State::SuppressingWindow(log));
            }
            Self::FixedWindow(rule) => {
                let window = rule.spend(state.as_ref().and_then(State::fixed), now, cost);
                *state = Some(State::FixedWindow(window));
            }
        }
    }

    /// Returns the state after `part` was given back: as it was, if nothing of the charge takes up room any more.
    pub(super) fn refund(
        &self,
        state: Option<State>,
        now: Timestamp,
        part: ChargePart,
    ) -> Option<State> {
        match (self, state?) {
            (_, state) if state.expires_at_us() <= now.as_micros() => Some(state),
            (Self::TokenBucket(_), State::TokenBucket(state)) => {
                state.refund(now, part).map(State::TokenBucket)
            }
            (Self::SlidingWindow(rule), State::SlidingWindow(log)) => {
                log.refund(rule, now, part).map(State::SlidingWindow)
            }
            (Self::SuppressingWindow(rule), State::SuppressingWindow(log)) => {
                let log = log.refund(rule.soft(), now, part);
                log.map(State::SuppressingWindow)
            }
            (Self::FixedWindow(rule), State::FixedWindow(state)) => {
                state.refund(rule, now, part).map(State::FixedWindow)
            }
            (_, state) => Some(state),
        }
    }

    /// Returns the moment from which on the plan is as good as unused; the past for a state of another algorithm.
    #[inline]
    pub(super) fn unused_from_us(&self, state: &State) -> u64 {
        match (self, state) {
            (Self::TokenBucket(rule), State::TokenBucket(state)) => rule.full_at_us(state),
            (Self::SlidingWindow(rule), State::SlidingWindow(log)) => {
                log.empty_from_us(rule.window_us())
            }
            (Self::SuppressingWindow(rule), State::SuppressingWindow(log)) => {
                log.empty_from_us(rule.soft().window_us())
            }
            (Self::FixedWindow(rule), State::FixedWindow(state)) => rule.ends_at_us(state),
            _ => 0,
        }
    }

    /// Returns the units that are free at `now`.
    #[inline]
    pub(super) fn remaining(&self, state: Option<&State>, now: Timestamp) -> u32 {
        match self {
            Self::TokenBucket(rule) => rule.remaining(state.and_then(State::bucket), now),
            Self::SlidingWindow(rule) => rule.remaining(state.and_then(State::sliding), now),
            Self::SuppressingWindow(rule) => {
                rule.soft().remaining(state.and_then(State::observed), now)
            }
            Self::FixedWindow(rule) => rule.remaining(state.and_then(State::fixed), now),
        }
    }
}
