//! [`Entry`]: what a slot holds of one key.

use limiter_core::math::{BucketState, FixedState, State};
use limiter_core::{Rate, Timestamp};

use crate::origins::{Kind, OriginId};

/// What a slot holds of one key: one token bucket or fixed window, without what its origin knows; or where the rest is.
///
/// It expires at `until_us`, or a microsecond later if `part` is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// When the bucket was last spent from, or the window began; or which box holds the states.
    since_us: u64,
    /// When the bucket is full, in whole microseconds; the last microsecond of the window; or when all in the box expires.
    until_us: u64,
    /// The rest of the moment at which the bucket is full; what the window used, never zero; or zero.
    part: u32,
    /// `None` for a box.
    origin: Option<OriginId>,
}

impl Entry {
    /// Keeps the numbers of `state`, which is of `origin`; `None` if they do not fit.
    pub(crate) fn of_state(state: &State, origin: OriginId) -> Option<Self> {
        match state {
            State::TokenBucket(state) => Some(Self::of_bucket(state, origin)),
            State::FixedWindow(state) => Some(Self {
                since_us: state.began().as_micros(),
                until_us: state.ends_at_us() - 1,
                part: state.used(),
                origin: Some(origin),
            }),
            State::SlidingWindow(_) | State::SuppressingWindow(_) => None,
        }
    }

    /// Keeps the numbers of a bucket, which is of `origin`.
    #[inline]
    pub(crate) fn of_bucket(state: &BucketState, origin: OriginId) -> Self {
        Self {
            since_us: state.seen().as_micros(),
            until_us: state.full_at_us(),
            part: state.full_at_part(),
            origin: Some(origin),
        }
    }

    /// Says in which box the states are, and when the last of them expires.
    pub(crate) fn of_box(nth: u64, expires_at_us: u64) -> Self {
        Self {
            since_us: nth,
            until_us: expires_at_us,
            part: 0,
            origin: None,
        }
    }

    /// Returns the number of the box, if the states are in one.
    pub(crate) fn nth_box(&self) -> Option<u64> {
        self.origin.is_none().then_some(self.since_us)
    }

    /// Returns under what the state was charged, if it is kept right here.
    #[inline]
    pub(crate) fn origin(&self) -> Option<OriginId> {
        self.origin
    }

    /// Returns the same state under another name of its origin.
    pub(crate) fn with_origin(self, origin: OriginId) -> Self {
        Self {
            origin: Some(origin),
            ..self
        }
    }

    /// Returns the microsecond since the epoch from which on nothing in the entry means anything.
    #[inline]
    pub(crate) fn expires_at_us(&self) -> u64 {
        self.until_us + u64::from(self.part > 0)
    }

    /// Returns the state that is kept right here, an expired one too.
    pub(crate) fn state(&self, kind: Kind) -> Option<State> {
        match kind {
            Kind::Bucket(rate) => self.bucket(rate).map(State::TokenBucket),
            Kind::Fixed => {
                let began = Timestamp::from_micros(self.since_us).ok()?;
                FixedState::from_parts(began, self.until_us + 1, self.part).map(State::FixedWindow)
            }
        }
    }

    /// Returns the bucket that is kept right here and refills at `rate`, an expired one too.
    #[inline]
    pub(crate) fn bucket(&self, rate: Rate) -> Option<BucketState> {
        let seen = Timestamp::from_micros(self.since_us).ok()?;
        BucketState::from_parts(seen, self.until_us, self.part, rate)
    }

    /// Returns the entry as a slot keeps it.
    #[inline]
    pub(crate) fn to_words(self) -> [u64; 3] {
        let origin = self.origin.map_or(0, OriginId::get);
        let last = u64::from(self.part) | u64::from(origin) << 32;
        [self.since_us, self.until_us, last]
    }

    /// Returns what [`to_words`](Self::to_words) kept.
    #[inline]
    pub(crate) fn from_words([since_us, until_us, last]: [u64; 3]) -> Self {
        let low = u32::try_from(last & u64::from(u32::MAX)).unwrap_or(0);
        let high = u32::try_from(last >> 32).unwrap_or(0);
        Self {
            since_us,
            until_us,
            part: low,
            origin: OriginId::new(high),
        }
    }
}
