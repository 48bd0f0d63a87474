//! [`Kept`]: what the model remembers of one key under one plan, whatever the algorithm.

use limiter_core::Limit;

use super::bucket::Bucket;
use super::fixed::Fixed;
use super::window::Window;

/// A share of one: every request is refused.
const ALL: u32 = 1_000_000;

#[derive(Clone, Debug)]
pub(super) enum Kept {
    Bucket(Bucket),
    Sliding(Window),
    Suppressing(Window),
    Fixed(Fixed),
}

/// Units of a charge that are to be given back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// When it was charged.
    pub(super) charged_at: u128,
    /// What of it was not given back before.
    pub(super) left: u128,
    /// How much of that to give back.
    pub(super) units: u128,
}

impl Kept {
    pub(super) fn is_of(&self, limit: &Limit) -> bool {
        match limit {
            Limit::TokenBucket(_) => matches!(self, Self::Bucket(_)),
            Limit::SlidingWindow(_) => matches!(self, Self::Sliding(_)),
            Limit::SuppressingWindow(_) => matches!(self, Self::Suppressing(_)),
            Limit::FixedWindow(_) => matches!(self, Self::Fixed(_)),
            _ => false,
        }
    }

    /// Returns the share of requests of `cost` that is refused: none or all, but for a suppressing window.
    pub(super) fn refused_millionths(
        own: Option<&Self>,
        limit: &Limit,
        now: u128,
        cost: u128,
    ) -> u32 {
        match limit {
            Limit::SuppressingWindow(rule) => {
                let empty = Window::default();
                let window = own.and_then(Self::window).unwrap_or(&empty);
                window.refused_millionths(rule, now, cost)
            }
            _ if cost <= Self::room(own, limit, now) => 0,
            _ => ALL,
        }
    }

    /// Returns the first microsecond from `now` on at which a request of `cost` is certain to pass, if nobody asks.
    pub(super) fn certain_at(own: Option<&Self>, limit: &Limit, now: u128, cost: u128) -> u128 {
        if cost <= Self::room(own, limit, now) {
            return now;
        }
        let moment = match (own, limit) {
            (Some(Self::Bucket(bucket)), Limit::TokenBucket(rule)) => {
                bucket.lacks_at_most_from(rule, u128::from(rule.capacity()) - cost)
            }
            (Some(Self::Sliding(window) | Self::Suppressing(window)), limit) => {
                let most = u128::from(limit.units()) - cost;
                window.holds_at_most_from(window_of(limit), most, now)
            }
            (Some(Self::Fixed(fixed)), Limit::FixedWindow(rule)) => {
                let most = u128::from(limit.units()) - cost;
                fixed.holds_at_most_from(rule, most, now)
            }
            _ => now,
        };
        assert!(cost <= Self::room(own, limit, moment), "no promise is kept");
        assert!(
            cost > Self::room(own, limit, moment - 1),
            "a wait is too long"
        );
        moment
    }

    /// Returns the units that are free at `now`.
    pub(super) fn free(own: Option<&Self>, limit: &Limit, now: u128) -> u32 {
        u32::try_from(Self::room(own, limit, now)).unwrap_or(u32::MAX)
    }

    /// Returns the largest cost that is certain to fit.
    fn room(own: Option<&Self>, limit: &Limit, now: u128) -> u128 {
        let taken = match (own.filter(|own| own.runs_out_at() > now), limit) {
            (Some(Self::Bucket(bucket)), Limit::TokenBucket(rule)) => {
                bucket.whole_tokens_lacking(rule, now)
            }
            (Some(Self::Sliding(window) | Self::Suppressing(window)), limit) => {
                window.units(window_of(limit), now)
            }
            (Some(Self::Fixed(fixed)), Limit::FixedWindow(rule)) => fixed.units(rule, now),
            _ => 0,
        };
        u128::from(limit.units()).saturating_sub(taken)
    }

    /// Returns what is kept after `cost` was spent. What has run out under the plan that it was charged under counts for
    /// nothing, nor does the state of another algorithm.
    pub(super) fn after_spend(kept: Option<Self>, limit: &Limit, now: u128, cost: u128) -> Self {
        let own = kept.filter(|kept| kept.is_of(limit) && kept.runs_out_at() > now);
        match (limit, own) {
            (Limit::TokenBucket(rule), Some(Self::Bucket(bucket))) => {
                Self::Bucket(bucket.after_spend(rule, now, cost))
            }
            (Limit::TokenBucket(rule), _) => Self::Bucket(Bucket::spent(rule, now, cost)),
            (Limit::SlidingWindow(rule), own) => {
                let window = own.as_ref().and_then(Self::window).cloned();
                Self::Sliding(window.unwrap_or_default().after_spend(rule, now, cost))
            }
            (Limit::SuppressingWindow(rule), own) => {
                let window = own.as_ref().and_then(Self::window).cloned();
                let window = window.unwrap_or_default();
                Self::Suppressing(window.after_spend(rule.soft(), now, cost))
            }
            (Limit::FixedWindow(rule), Some(Self::Fixed(fixed))) => {
                Self::Fixed(fixed.after_spend(rule, now, cost))
            }
            (Limit::FixedWindow(rule), _) => Self::Fixed(Fixed::spent(rule, now, cost)),
            (limit, _) => unreachable!("the model knows no algorithm of {limit}"),
        }
    }

    /// Returns what is kept after units of a charge were given back; nothing at all once nothing is spent.
    pub(super) fn after_refund(self, limit: &Limit, now: u128, part: Part) -> Option<Self> {
        match (self, limit) {
            (Self::Bucket(bucket), _) => bucket.after_refund(now, part).map(Self::Bucket),
            (Self::Sliding(window), Limit::SlidingWindow(rule)) => {
                window.after_refund(rule, now, part).map(Self::Sliding)
            }
            (Self::Suppressing(window), Limit::SuppressingWindow(rule)) => {
                let window = window.after_refund(rule.soft(), now, part);
                window.map(Self::Suppressing)
            }
            (Self::Fixed(fixed), Limit::FixedWindow(rule)) => {
                fixed.after_refund(rule, now, part).map(Self::Fixed)
            }
            (other, _) => Some(other),
        }
    }

    /// Returns `now`, or the latest moment that this has seen if a clock stepped back behind it.
    pub(super) fn counts_as(&self, now: u128) -> u128 {
        now.max(match self {
            Self::Bucket(bucket) => bucket.changed_at(),
            Self::Sliding(window) | Self::Suppressing(window) => window.changed_at(),
            Self::Fixed(fixed) => fixed.began(),
        })
    }

    /// Returns the first microsecond from which on this equals a plan that was never used, whatever the plan is by then.
    pub(super) fn runs_out_at(&self) -> u128 {
        match self {
            Self::Bucket(bucket) => bucket.runs_out_at(),
            Self::Sliding(window) | Self::Suppressing(window) => window.runs_out_at(),
            Self::Fixed(fixed) => fixed.runs_out_at(),
        }
    }

    /// Returns the first microsecond from which on `limit` is as good as unused.
    pub(super) fn unused_from(&self, limit: &Limit) -> u128 {
        match (self, limit) {
            (Self::Bucket(bucket), Limit::TokenBucket(rule)) => bucket.lacks_at_most_from(rule, 0),
            (Self::Sliding(window) | Self::Suppressing(window), limit) => {
                window.empty_from(window_of(limit))
            }
            (Self::Fixed(fixed), Limit::FixedWindow(rule)) => fixed.ends_at(rule),
            _ => 0,
        }
    }

    const fn window(&self) -> Option<&Window> {
        match self {
            Self::Sliding(window) | Self::Suppressing(window) => Some(window),
            _ => None,
        }
    }
}

fn window_of(limit: &Limit) -> u128 {
    limit.window().as_micros()
}
