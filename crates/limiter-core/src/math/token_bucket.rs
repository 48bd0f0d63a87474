//! The token bucket: one theoretical moment at which the bucket is full again.
//!
//! Exact by construction. With a rate of `units` per `period_us`, time is counted in *ticks* of `1/(1024 * units)`
//! microseconds: a token is worth `1024 * period_us` ticks and a microsecond refills `1024 * units` ticks, all whole numbers.
//! What is missing from a full bucket is its *debt*, in ticks; it shrinks by itself, so a state needs no refill step that
//! could round. Nor does 1/1024 of a token, to which the debt of a changed plan is rounded up.

use super::ChargePart;
use crate::limit::{BucketRule, Rate};
use crate::{Cost, MAX_UNITS, Timestamp};

/// What a token bucket remembers: when it was last spent from, when it will be full again, and at which rate.
///
/// It is full at `full_at_us + full_at_part / (1024 * rate.units())` microseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketState {
    seen: Timestamp,
    full_at_us: u64,
    full_at_part: u64,
    rate: Rate,
}

/// The parts of a token that a debt is rounded up to as a plan gets another rate.
const PARTS: u64 = 1_024;
/// The most that a debt is written as: what refills in 142 years, the longest that any bucket takes
/// to fill.
///
/// No sequence of plans comes to it. A debt that would take longer at the rate of now stays at the
/// rate that it had, and no charge lengthens one that is more than its bucket holds: what is
/// charged then was refilled since the last charge.
const MAX_DEBT_US: u64 = (1 << 52) - 1;

impl BucketState {
    /// Puts a state together again from the numbers that a store kept.
    ///
    /// `None` if they are none that the math makes: a store that reads them holds a corrupt value.
    #[must_use]
    pub fn from_parts(
        seen: Timestamp,
        full_at_us: u64,
        full_at_part: u64,
        rate: Rate,
    ) -> Option<Self> {
        let sound = full_at_us < 1 << 53
            && full_at_us >= seen.as_micros()
            && full_at_part < PARTS * u64::from(rate.units());
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

    /// Returns the rest of that moment, in units of `1 / (1024 * rate.units())` microseconds.
    #[must_use]
    pub const fn full_at_part(&self) -> u64 {
        self.full_at_part
    }

    /// Returns the rate that the bucket was last spent from at; or an earlier one, if it would take
    /// too long to be full at that.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the first whole microsecond at which the bucket is full: from then on the state means nothing.
    #[inline]
    pub(crate) const fn expires_at_us(&self) -> u64 {
        self.full_at_us + (self.full_at_part > 0) as u64
    }

    /// Returns the bucket after `part` was given back, less what was refilled since the charge, or `None` if that fills it.
    ///
    /// It is as if less had been missing at the last charge, so that a plan that has changed since refills no more for it.
    pub(super) fn refund(&self, now: Timestamp, part: ChargePart) -> Option<Self> {
        let now_us = now.max(self.seen).as_micros();
        let since_us = now_us.saturating_sub(part.charged_at.as_micros());
        let refilled = u128::from(since_us) * microsecond_ticks(self.rate);
        let tokens = |units: u32| u128::from(units) * token_ticks(self.rate);
        let given = tokens(part.units).min(tokens(part.left).saturating_sub(refilled));
        let debt = self.debt().saturating_sub(given);
        let after = full_after(self.seen, debt, self.rate);
        (after.expires_at_us() > now_us).then_some(after)
    }

    /// Returns what was missing at the last charge, in ticks of the rate of then.
    #[inline]
    fn debt(&self) -> u128 {
        let us = self.full_at_us.saturating_sub(self.seen.as_micros());
        u128::from(us) * microsecond_ticks(self.rate) + u128::from(self.full_at_part)
    }

    /// Returns what a rate has refilled since the last charge, in its ticks.
    #[inline]
    fn refilled(&self, now: Timestamp, rate: Rate) -> u128 {
        let us = now.as_micros().saturating_sub(self.seen.as_micros());
        u128::from(us) * microsecond_ticks(rate)
    }
}

impl BucketRule {
    #[inline]
    pub(crate) fn admits(&self, state: Option<&BucketState>, now: Timestamp, cost: Cost) -> bool {
        let Some(rest) = self.capacity().checked_sub(cost.get()) else {
            return false;
        };
        self.lacks(state, now) <= u128::from(rest) * token_ticks(self.rate())
    }

    /// Returns the first moment, not before `now`, at which `cost` fits if nobody spends.
    #[inline]
    pub(crate) fn admits_at_us(
        &self,
        state: Option<&BucketState>,
        now: Timestamp,
        cost: Cost,
    ) -> u64 {
        match state {
            Some(state) if !self.admits(Some(state), now, cost) => {
                let rest = self.capacity().saturating_sub(cost.get());
                self.lacks_at_most_from_us(state, rest)
            }
            _ => now.as_micros(),
        }
    }

    /// Returns the first moment at which the bucket is full.
    #[inline]
    pub(crate) fn full_at_us(&self, state: &BucketState) -> u64 {
        self.lacks_at_most_from_us(state, 0)
    }

    /// Returns the bucket after `cost` was spent from it.
    ///
    /// All that was missing is written on, though it may be more than this bucket holds: another
    /// release may still run with the plan that it was charged under. What would take too long to
    /// refill at the rate of this plan keeps the rate that it had.
    #[inline]
    pub(crate) fn spend(
        &self,
        state: Option<&BucketState>,
        now: Timestamp,
        cost: Cost,
    ) -> BucketState {
        let rate = self.rate();
        let charge = u128::from(cost.get()) * token_ticks(rate);
        let Some(state) = in_force(state, now) else {
            return full_after(now, charge, rate);
        };
        let seen = now.max(state.seen);
        let debt = self.debt(state);
        if debt >= max_debt(rate) && state.rate != rate {
            return self.spend_at_the_rate_of(state, seen, cost);
        }
        let debt = debt.saturating_sub(state.refilled(seen, rate)) + charge;
        full_after(seen, debt.min(max_debt(rate)), rate)
    }

    /// Returns the bucket after `cost` was spent from it, at the rate of the state that was there:
    /// in whole parts of a token, which are whole ticks of any rate.
    #[cold]
    fn spend_at_the_rate_of(
        &self,
        state: &BucketState,
        seen: Timestamp,
        cost: Cost,
    ) -> BucketState {
        let refilled = state.refilled(seen, self.rate()) / u128::from(self.rate().period_us());
        let charge = u128::from(PARTS) * u128::from(cost.get());
        let parts = parts_missing(state).saturating_sub(refilled) + charge;
        let debt = parts * u128::from(state.rate.period_us());
        full_after(seen, debt.min(max_debt(state.rate)), state.rate)
    }

    /// Returns the whole tokens in the bucket.
    #[inline]
    pub(crate) fn remaining(&self, state: Option<&BucketState>, now: Timestamp) -> u32 {
        let (whole, rest) = div_rem(self.lacks(state, now), PARTS * self.rate().period_us());
        let missing = whole.saturating_add(u64::from(rest > 0));
        self.capacity()
            .saturating_sub(u32::try_from(missing).unwrap_or(u32::MAX))
    }

    /// Returns what is missing at `now`, in ticks of the rate of this plan.
    ///
    /// If more was missing at the last charge than the bucket holds, it was empty then.
    #[inline]
    fn lacks(&self, state: Option<&BucketState>, now: Timestamp) -> u128 {
        in_force(state, now).map_or(0, |state| {
            let refilled = state.refilled(now, self.rate());
            self.debt(state).min(self.size()).saturating_sub(refilled)
        })
    }

    /// Returns the first moment at which at most `missing` tokens are missing: by this plan's refill, or because the state
    /// has run out.
    #[inline]
    fn lacks_at_most_from_us(&self, state: &BucketState, missing: u32) -> u64 {
        let allowed = u128::from(missing) * token_ticks(self.rate());
        let lacks = self.debt(state).min(self.size());
        let too_much = lacks.saturating_sub(allowed);
        let (us, rest) = div_rem(too_much, PARTS * u64::from(self.rate().units()));
        let moment_us = state.seen.as_micros().saturating_add(us);
        moment_us
            .saturating_add(u64::from(rest > 0))
            .min(state.expires_at_us())
    }

    /// Returns what was missing at the last charge, in ticks of the rate of this plan.
    #[inline]
    fn debt(&self, state: &BucketState) -> u128 {
        if state.rate == self.rate() {
            return state.debt();
        }
        let debt = parts_missing(state) * u128::from(self.rate().period_us());
        debt.min(max_debt(self.rate()))
    }

    /// Returns all tokens that the bucket holds, in ticks.
    #[inline]
    fn size(&self) -> u128 {
        u128::from(self.capacity()) * token_ticks(self.rate())
    }
}

/// Returns what was missing at the last charge in parts of a token, rounded up: at most what the
/// largest bucket holds.
#[inline]
fn parts_missing(state: &BucketState) -> u128 {
    let parts = state.debt().div_ceil(state.rate.period_us().into());
    parts.min(u128::from(PARTS) * u128::from(MAX_UNITS))
}

/// Returns the state unless it has run out under the plan that left it: then it is as good as none, as a store that frees
/// it in time has none.
#[inline]
fn in_force(state: Option<&BucketState>, now: Timestamp) -> Option<&BucketState> {
    state.filter(|state| state.expires_at_us() > now.as_micros())
}

#[inline]
fn token_ticks(rate: Rate) -> u128 {
    (PARTS * rate.period_us()).into()
}

#[inline]
fn microsecond_ticks(rate: Rate) -> u128 {
    (PARTS * u64::from(rate.units())).into()
}

#[inline]
fn max_debt(rate: Rate) -> u128 {
    u128::from(MAX_DEBT_US) * microsecond_ticks(rate)
}

#[inline]
fn full_after(seen: Timestamp, debt: u128, rate: Rate) -> BucketState {
    let (wait_us, part) = div_rem(debt, PARTS * u64::from(rate.units()));
    BucketState {
        seen,
        full_at_us: seen.as_micros().saturating_add(wait_us),
        full_at_part: part,
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
