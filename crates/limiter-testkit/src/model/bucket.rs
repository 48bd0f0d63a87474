//! A token bucket as the tokens that it lacks, which leak away with time.

use limiter_core::{BucketRule, Rate};

use super::kept::Part;

/// What a bucket lacks of being full: an exact fraction of tokens, true at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// In parts of a token: one token has `rate.period_us()` parts, and every microsecond brings `rate.units()` parts.
    lacks: u128,
    /// The moment at which that was true: the last change.
    at: u128,
    /// The rate under which it was charged.
    rate: Rate,
}

impl Bucket {
    /// Returns a bucket that was full before `cost` was spent.
    pub(super) fn spent(rule: &BucketRule, now: u128, cost: u128) -> Self {
        let rate = rule.stated_rate();
        Self {
            lacks: cost * parts_of_a_token(rate),
            at: now,
            rate,
        }
    }

    /// A bucket that was charged at another rate keeps the tokens that it lacks, rounded up to whole ones.
    pub(super) fn after_spend(self, rule: &BucketRule, now: u128, cost: u128) -> Self {
        let rate = rule.stated_rate();
        let lacked = if is_same_rate(self.rate, rate) {
            Self::at_rate(self.lacks_at(now), self.rate, rate)
        } else {
            self.whole_tokens_lacking(now) * parts_of_a_token(rate)
        };
        Self {
            lacks: lacked + cost * parts_of_a_token(rate),
            at: now.max(self.at),
            rate,
        }
    }

    /// Gives back at most what was charged, less what was given back already, less what was refilled since.
    pub(super) fn after_refund(self, now: u128, part: Part) -> Option<Self> {
        let since = now.max(self.at).saturating_sub(part.charged_at);
        let refilled = since * u128::from(self.rate.units());
        let most = (part.left * parts_of_a_token(self.rate)).saturating_sub(refilled);
        let given = most.min(part.units * parts_of_a_token(self.rate));
        if given == 0 {
            return Some(self);
        }
        let lacks = self.lacks_at(now).saturating_sub(given);
        (lacks > 0).then_some(Self {
            lacks,
            at: now.max(self.at),
            ..self
        })
    }

    pub(super) const fn changed_at(&self) -> u128 {
        self.at
    }

    /// Returns how many tokens are lacking, a started one counting as a whole.
    pub(super) fn whole_tokens_lacking(&self, now: u128) -> u128 {
        self.lacks_at(now).div_ceil(parts_of_a_token(self.rate))
    }

    /// Returns the first microsecond at which at most `tokens` are lacking.
    pub(super) fn lacks_at_most_from(&self, tokens: u128) -> u128 {
        let too_many = self
            .lacks
            .saturating_sub(tokens * parts_of_a_token(self.rate));
        self.at + too_many.div_ceil(u128::from(self.rate.units()))
    }

    fn lacks_at(&self, now: u128) -> u128 {
        let elapsed = now.saturating_sub(self.at);
        self.lacks
            .saturating_sub(elapsed * u128::from(self.rate.units()))
    }

    /// Writes the same fraction in the parts of an equal rate in other numbers, such as 10/s and 20/2s.
    fn at_rate(lacks: u128, from: Rate, to: Rate) -> u128 {
        let (from, to) = (parts_of_a_token(from), parts_of_a_token(to));
        (lacks * to).div_ceil(from)
    }
}

fn parts_of_a_token(rate: Rate) -> u128 {
    u128::from(rate.period_us())
}

fn is_same_rate(a: Rate, b: Rate) -> bool {
    u128::from(a.units()) * u128::from(b.period_us())
        == u128::from(b.units()) * u128::from(a.period_us())
}
