//! A token bucket as the tokens that it lacked at its last charge, which a plan refills from then on.

use super::kept::Part;
use limiter_core::{BucketRule, MAX_UNITS, Rate};

/// What a bucket lacked of being full at its last charge, in parts of a token of the rate that it was charged under.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    lacked: u128,
    /// The last charge.
    at: u128,
    /// The rate under which it was charged.
    rate: Rate,
}

/// A debt is rounded up to so many parts of a token as the rate changes.
const PARTS: u128 = 1_024;
/// A debt that would take so long to refill at a new rate, in microseconds, stays at the rate that
/// it had: about 142 years.
const TOO_LONG: u128 = (1 << 52) - 1;

impl Bucket {
    /// Returns a bucket that was full before `cost` was spent.
    pub(super) fn spent(rule: &BucketRule, now: u128, cost: u128) -> Self {
        let rate = rule.stated_rate();
        Self {
            lacked: cost * a_token(rate),
            at: now,
            rate,
        }
    }

    /// Returns the moment at which it is full by the rate that it was charged under.
    pub(super) fn runs_out_at(&self) -> u128 {
        self.at + self.lacked.div_ceil(a_microsecond(self.rate))
    }

    /// All that was lacking is written on, even if that is more than the bucket holds now; under
    /// the rate of before, if it would take too long under the one of now.
    pub(super) fn after_spend(self, rule: &BucketRule, now: u128, cost: u128) -> Self {
        let rate = rule.stated_rate();
        let refilled = now.saturating_sub(self.at) * a_microsecond(rate);
        let lacked = self.lacked_under(rate);
        let keeps_its_rate = lacked >= TOO_LONG * a_microsecond(rate);
        if keeps_its_rate && !is_same_rate(self.rate, rate) {
            // Counted in 1/1024 of a token, of which those are refilled that are there as a whole.
            let refilled = refilled * PARTS / a_token(rate);
            let lacked = self.lacked_1024ths() - refilled + cost * PARTS;
            return Self {
                lacked: lacked * a_token(self.rate) / PARTS,
                at: now.max(self.at),
                rate: self.rate,
            };
        }
        Self {
            lacked: lacked.saturating_sub(refilled) + cost * a_token(rate),
            at: now.max(self.at),
            rate,
        }
    }

    /// Gives back at most what was charged, less what was given back already, less what was refilled since. So much less was
    /// lacking at the last charge.
    pub(super) fn after_refund(self, now: u128, part: Part) -> Option<Self> {
        let now = now.max(self.at);
        let refilled = now.saturating_sub(part.charged_at) * a_microsecond(self.rate);
        let most = (part.left * a_token(self.rate)).saturating_sub(refilled);
        let given = most.min(part.units * a_token(self.rate));
        let lacked = self.lacked.saturating_sub(given);
        let after = Self { lacked, ..self };
        (after.runs_out_at() > now).then_some(after)
    }

    pub(super) const fn changed_at(&self) -> u128 {
        self.at
    }

    /// Returns how many tokens a plan finds lacking, a started one counting as a whole. A bucket that lacked more than it
    /// holds was empty.
    pub(super) fn whole_tokens_lacking(&self, rule: &BucketRule, now: u128) -> u128 {
        let rate = rule.stated_rate();
        let refilled = now.saturating_sub(self.at) * a_microsecond(rate);
        let lacking = self.lacked_of(rule).saturating_sub(refilled);
        lacking.div_ceil(a_token(rate))
    }

    /// Returns the first microsecond at which a plan finds at most `tokens` lacking.
    pub(super) fn lacks_at_most_from(&self, rule: &BucketRule, tokens: u128) -> u128 {
        let rate = rule.stated_rate();
        let too_many = self.lacked_of(rule).saturating_sub(tokens * a_token(rate));
        let refilled_at = self.at + too_many.div_ceil(a_microsecond(rate));
        refilled_at.min(self.runs_out_at())
    }

    fn lacked_of(&self, rule: &BucketRule) -> u128 {
        let all = u128::from(rule.capacity()) * a_token(rule.stated_rate());
        self.lacked_under(rule.stated_rate()).min(all)
    }

    /// Returns what was lacking in parts of a token of another rate: the same fraction for an equal rate in other numbers,
    /// such as 10/s and 20/2s, else rounded up to 1/1024 of a token.
    fn lacked_under(&self, rate: Rate) -> u128 {
        if is_same_rate(self.rate, rate) {
            return (self.lacked * u128::from(rate.units())).div_ceil(self.rate.units().into());
        }
        self.lacked_1024ths() * a_token(rate) / PARTS
    }

    /// Returns what was lacking in 1/1024 of a token, rounded up; no more than the largest bucket
    /// holds.
    fn lacked_1024ths(&self) -> u128 {
        let parts = (self.lacked * PARTS).div_ceil(a_token(self.rate));
        parts.min(u128::from(MAX_UNITS) * PARTS)
    }
}

/// A token has so many parts,
fn a_token(rate: Rate) -> u128 {
    PARTS * u128::from(rate.period_us())
}

/// and a microsecond brings so many of them.
fn a_microsecond(rate: Rate) -> u128 {
    PARTS * u128::from(rate.units())
}

fn is_same_rate(a: Rate, b: Rate) -> bool {
    u128::from(a.units()) * u128::from(b.period_us())
        == u128::from(b.units()) * u128::from(a.period_us())
}
