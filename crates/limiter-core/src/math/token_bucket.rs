//! The token bucket: one theoretical moment at which the bucket is full again.
//!
//! Exact by construction. With a rate of `units` per `period_us`, time is counted in *ticks* of `1/units` microseconds:
//! a token is worth `period_us` ticks and a microsecond refills `units` ticks, both whole numbers. What is missing from a
//! full bucket is its *debt*, in ticks; it shrinks by itself, so a state needs no refill step that could round.

use super::ChargePart;
use crate::limit::{BucketRule, Rate};
use crate::{Cost, Timestamp};

/// What a token bucket remembers: when it will be full again, at which rate, and when it was last spent from.
///
/// It is full at `full_at_us + full_at_part / rate.units()` microseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketState {
    seen: Timestamp,
    full_at_us: u64,
    full_at_part: u32,
    rate: Rate,
}

impl BucketState {
    /// Puts a state together again from the numbers that a store kept.
    ///
    /// `None` if they are none that the math makes: a store that reads them holds a corrupt value.
    #[must_use]
    pub fn from_parts(
        seen: Timestamp,
        full_at_us: u64,
        full_at_part: u32,
        rate: Rate,
    ) -> Option<Self> {
        let sound = full_at_us < 1 << 53 && full_at_part < rate.units();
        sound.then_some(Self {
            seen,
            full_at_us,
            full_at_part,
            rate,
        })
    }

    /// Returns when the bucket was last spent from.
    #[must_use]
    pub const fn seen(&self) -> Timestamp {
        self.seen
    }

    /// Returns the whole microseconds of the moment at which the bucket is full again.
    #[must_use]
    pub const fn full_at_us(&self) -> u64 {
        self.full_at_us
    }

    /// Returns the rest of that moment, in units of `1 / rate.units()` microseconds.
    #[must_use]
    pub const fn full_at_part(&self) -> u32 {
        self.full_at_part
    }

    /// Returns the rate at which the bucket refills until it is spent from again.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the first whole microsecond at which the bucket is full: from then on the state means nothing.
    pub(crate) const fn expires_at_us(&self) -> u64 {
        self.full_at_us + (self.full_at_part > 0) as u64
    }

    /// Returns the bucket after `part` was given back, less what was refilled since the charge, or `None` if that fills it.
    pub(super) fn refund(&self, now: Timestamp, part: ChargePart) -> Option<Self> {
        let now = now.max(self.seen);
        let elapsed_us = now.as_micros().saturating_sub(part.charged_at.as_micros());
        let refilled = u128::from(elapsed_us) * u128::from(self.rate.units());
        let tokens = |units: u32| u128::from(units) * token_ticks(self.rate);
        let given = tokens(part.units).min(tokens(part.left).saturating_sub(refilled));
        if given == 0 {
            return Some(*self);
        }
        let debt = self.debt(now).saturating_sub(given);
        (debt > 0).then(|| full_after(now, debt, self.rate))
    }

    #[inline]
    fn debt(&self, now: Timestamp) -> u128 {
        let now_us = now.max(self.seen).as_micros();
        match self.full_at_us.checked_sub(now_us) {
            Some(us) => {
                u128::from(us) * u128::from(self.rate.units()) + u128::from(self.full_at_part)
            }
            None => 0,
        }
    }
}

impl BucketRule {
    #[inline]
    pub(crate) fn admits(&self, state: Option<&BucketState>, now: Timestamp, cost: Cost) -> bool {
        match state {
            None => cost.get() <= self.capacity(),
            Some(state) => self
                .debt_allowing(state, cost)
                .is_some_and(|most| state.debt(now) <= most),
        }
    }

    /// Returns the first moment, not before `now`, at which `cost` fits if nobody spends.
    #[inline]
    pub(crate) fn admits_at_us(
        &self,
        state: Option<&BucketState>,
        now: Timestamp,
        cost: Cost,
    ) -> u64 {
        let now_us = now.as_micros();
        let Some(state) = state.filter(|_| !self.admits(state, now, cost)) else {
            return now_us;
        };
        let spare = self
            .debt_allowing(state, cost)
            .and_then(|most| most.checked_sub(state.full_at_part.into()));
        match spare {
            Some(spare) => state
                .full_at_us
                .saturating_sub(to_u64(spare / u128::from(state.rate.units()))),
            None => state.full_at_us + 1,
        }
    }

    /// Returns the bucket after `cost` was spent from it.
    ///
    /// A bucket that was charged at another rate keeps the tokens it lacks, rounded up to whole ones.
    #[inline]
    pub(crate) fn spend(
        &self,
        state: Option<&BucketState>,
        now: Timestamp,
        cost: Cost,
    ) -> BucketState {
        let rate = self.rate();
        let (seen, debt) = match state {
            None => (now, 0),
            Some(state) if state.rate == rate => (now.max(state.seen), state.debt(now)),
            Some(state) => {
                let missing = state.debt(now).div_ceil(token_ticks(state.rate));
                (now.max(state.seen), missing * token_ticks(rate))
            }
        };
        full_after(
            seen,
            debt + u128::from(cost.get()) * token_ticks(rate),
            rate,
        )
    }

    /// Returns the whole tokens in the bucket.
    #[inline]
    pub(crate) fn remaining(&self, state: Option<&BucketState>, now: Timestamp) -> u32 {
        let Some(state) = state else {
            return self.capacity();
        };
        let (whole, rest) = div_rem(state.debt(now), state.rate.period_us());
        let missing = whole.saturating_add(u64::from(rest > 0));
        self.capacity()
            .saturating_sub(u32::try_from(missing).unwrap_or(u32::MAX))
    }

    /// Returns the most debt that leaves room for `cost`, in ticks of the rate that the bucket refills at.
    #[inline]
    fn debt_allowing(&self, state: &BucketState, cost: Cost) -> Option<u128> {
        let rest = self.capacity().checked_sub(cost.get())?;
        Some(u128::from(rest) * token_ticks(state.rate))
    }
}

fn token_ticks(rate: Rate) -> u128 {
    u128::from(rate.period_us())
}

#[inline]
fn full_after(seen: Timestamp, debt: u128, rate: Rate) -> BucketState {
    let (wait_us, part) = div_rem(debt, rate.units().into());
    BucketState {
        seen,
        full_at_us: seen.as_micros().saturating_add(wait_us),
        full_at_part: u32::try_from(part).unwrap_or(0),
        rate,
    }
}

/// Divides, at the price of a division of 64 bits where that is enough: nearly always.
#[inline]
fn div_rem(ticks: u128, by: u64) -> (u64, u64) {
    if let Ok(ticks) = u64::try_from(ticks) {
        return (ticks / by, ticks % by);
    }
    let by = u128::from(by);
    (to_u64(ticks / by), to_u64(ticks % by))
}

fn to_u64(ticks: u128) -> u64 {
    u64::try_from(ticks).unwrap_or(u64::MAX)
}
