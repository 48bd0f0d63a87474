//! [`Origins`]: what the inline states of one shard have in common, kept once.

use std::num::NonZeroU32;

use limiter_core::math::State;
use limiter_core::{PlanName, Rate};
use smallvec::SmallVec;

/// Under which plan an inline state was charged, and how to read its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) name: PlanName,
    pub(crate) kind: Kind,
}

/// Which algorithm left an inline state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A token bucket that refills at this rate.
    Bucket(Rate),
    /// A fixed window.
    Fixed,
}

/// Names an [`Origin`] of one shard.
pub(crate) type OriginId = NonZeroU32;

/// The origins in use in one shard: few, since plans are few. States beyond the bound are kept with their names, in a box.
///
/// The first, which most shards have alone, lies in the shard itself: one place less to fetch from memory.
#[derive(Debug, Default)]
pub(crate) struct Origins(SmallVec<[Origin; 1]>);

impl Origins {
    pub(crate) const MAX: usize = 64;

    #[inline]
    pub(crate) fn get(&self, id: OriginId) -> Option<&Origin> {
        self.0.get(usize::try_from(id.get() - 1).ok()?)
    }

    /// Returns the id of an origin, old or new; `None` if there are too many to keep one more.
    pub(crate) fn intern(&mut self, name: &PlanName, kind: Kind) -> Option<OriginId> {
        let known = |origin: &Origin| origin.kind == kind && origin.name == *name;
        let index = match self.0.iter().position(known) {
            Some(index) => index,
            None if self.0.len() < Self::MAX => {
                let name = name.clone();
                self.0.push(Origin { name, kind });
                self.0.len() - 1
            }
            None => return None,
        };
        OriginId::new(u32::try_from(index + 1).ok()?)
    }

    /// Returns whether the unused ones are worth looking for.
    pub(crate) fn is_crowded(&self) -> bool {
        self.0.len() >= Self::MAX / 2
    }
}

/// Returns how to read the numbers of `state`, if an entry can keep them.
#[inline]
pub(crate) fn kind_of(state: &State) -> Option<Kind> {
    match state {
        State::TokenBucket(state) => Some(Kind::Bucket(state.rate())),
        State::FixedWindow(_) => Some(Kind::Fixed),
        State::SlidingWindow(_) | State::SuppressingWindow(_) => None,
    }
}
