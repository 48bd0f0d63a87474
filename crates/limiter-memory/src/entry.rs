//! [`Entry`]: what a slot holds of one key.

use limiter_core::math::{BucketState, CountedWindow, FixedState, State};
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

/// Buckets whose plan never changed are full at whole parts of `1 / units` microseconds, of which a state counts so many.
const PARTS_OF_A_PART: u64 = 1_024;
/// `part` has so many bits.
const PART_BITS_IN_ALL: u32 = 30;
/// Moments take 53 bits, and so leave so many of a word to a third of `part`: two thirds are there.
const PART_BITS: u32 = 11;
const PART_MASK: u64 = (1 << PART_BITS) - 1;
/// The first word has the other 8, and the origin: there are fewer than 128.
const ORIGIN_BITS: u32 = 7;
const ORIGIN_MASK: u64 = (1 << ORIGIN_BITS) - 1;

impl Entry {
    /// The bits of its first word that an entry leaves to others: 49.
    pub(crate) const FREE_MASK: u64 =
        !((1 << (ORIGIN_BITS + PART_BITS_IN_ALL - 2 * PART_BITS)) - 1);

    /// Keeps the numbers of `state`, which is of `origin`; `None` if they do not fit, as may be
    /// after its plan has changed.
    pub(crate) fn of_state(state: &State, origin: OriginId) -> Option<Self> {
        match state {
            State::TokenBucket(state) => Self::of_bucket(state, origin),
            State::FixedWindow(state) => match state.windows() {
                [window] if window.used < 1 << PART_BITS_IN_ALL => Some(Self {
                    since_us: window.began.as_micros(),
                    until_us: window.ends_at_us - 1,
                    part: window.used,
                    origin: Some(origin),
                }),
                _ => None,
            },
            State::SlidingWindow(_) | State::SuppressingWindow(_) => None,
        }
    }

    /// Keeps the numbers of a bucket, which is of `origin`; `None` if they do not fit, as may be after its plan has changed.
    #[inline]
    pub(crate) fn of_bucket(state: &BucketState, origin: OriginId) -> Option<Self> {
        let part = state.full_at_part();
        let fits = part.is_multiple_of(PARTS_OF_A_PART);
        fits.then_some(Self {
            since_us: state.seen().as_micros(),
            until_us: state.full_at_us(),
            part: low_half(part / PARTS_OF_A_PART),
            origin: Some(origin),
        })
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
                let window = CountedWindow {
                    began: Timestamp::from_micros(self.since_us).ok()?,
                    ends_at_us: self.until_us + 1,
                    used: self.part,
                };
                FixedState::from_windows([window]).map(State::FixedWindow)
            }
        }
    }

    /// Returns the bucket that is kept right here and refills at `rate`, an expired one too.
    #[inline]
    pub(crate) fn bucket(&self, rate: Rate) -> Option<BucketState> {
        let seen = Timestamp::from_micros(self.since_us).ok()?;
        let part = u64::from(self.part) * PARTS_OF_A_PART;
        BucketState::from_parts(seen, self.until_us, part, rate)
    }

    /// Returns the entry as a slot keeps it: a few bits of one word, and two whole words.
    #[inline]
    pub(crate) fn to_words(self) -> [u64; 3] {
        let origin = u64::from(self.origin.map_or(0, OriginId::get));
        let part = u64::from(self.part);
        [
            (part >> (2 * PART_BITS)) << ORIGIN_BITS | origin,
            self.since_us << PART_BITS | (part >> PART_BITS) & PART_MASK,
            self.until_us << PART_BITS | part & PART_MASK,
        ]
    }

    /// Returns what [`to_words`](Self::to_words) kept; the other bits of the first word are of no matter.
    #[inline]
    pub(crate) fn from_words([first, since, until]: [u64; 3]) -> Self {
        let high = (first & !Self::FREE_MASK) >> ORIGIN_BITS;
        let part = (high << PART_BITS | since & PART_MASK) << PART_BITS | until & PART_MASK;
        Self {
            since_us: since >> PART_BITS,
            until_us: until >> PART_BITS,
            part: low_half(part),
            origin: OriginId::new(low_half(first & ORIGIN_MASK)),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "none of the numbers in an entry has more bits"
)]
const fn low_half(bits: u64) -> u32 {
    bits as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn prop_a_slot_gives_back_what_it_was_given(
            since_us in 0..1_u64 << 53,
            until_us in 0..1_u64 << 53,
            part in 0..1_u32 << PART_BITS_IN_ALL,
            origin in 0..128_u32,
            others: u64,
        ) {
            let origin = OriginId::new(origin);
            let entry = Entry { since_us, until_us, part, origin };
            let [first, since, until] = entry.to_words();
            prop_assert_eq!(first & Entry::FREE_MASK, 0);
            let shared = first | others & Entry::FREE_MASK;
            prop_assert_eq!(Entry::from_words([shared, since, until]), entry);
        }
    }

    #[test]
    fn a_window_that_does_not_fit_is_left_to_a_box() {
        let window = |began, used| CountedWindow {
            began: Timestamp::from_micros(began).unwrap(),
            ends_at_us: 9,
            used,
        };
        let fits = |windows: &[CountedWindow]| {
            let state = FixedState::from_windows(windows.iter().copied()).unwrap();
            Entry::of_state(&State::FixedWindow(state), OriginId::MIN).is_some()
        };
        assert!(fits(&[window(5, (1 << 30) - 1)]));
        assert!(!fits(&[window(5, 1 << 30)]));
        assert!(!fits(&[window(5, 2), window(6, 1)]));
    }

    #[test]
    fn no_part_and_no_origin_is_too_large() {
        const { assert!(limiter_core::MAX_UNITS < 1 << PART_BITS_IN_ALL) };
        const { assert!(crate::origins::Origins::MAX < 1 << ORIGIN_BITS) };
    }
}
