//! [`PlanEntry`]: all that is remembered of one key under plans.

use limiter_core::math::{BucketState, FixedState, State};
use limiter_core::{Plan, PlanName, Timestamp};
use smallvec::SmallVec;

use crate::origins::{Kind, OriginId, Origins};
use crate::table::Entry;

/// All that is remembered of one key: 24 bytes, and nothing on the heap, for one token bucket or fixed window.
pub(crate) enum PlanEntry {
    /// One token bucket or fixed window.
    One(Inline),
    /// Any other set of states; `None` in a vacant slot.
    Many(Option<Box<[Kept]>>),
}

/// A token bucket or fixed window without what its origin knows. It expires at `until_us`, or a microsecond later if
/// `part` is not zero.
pub(crate) struct Inline {
    /// When the bucket was last spent from, or the window began.
    since_us: u64,
    /// When the bucket is full, in whole microseconds, or the last microsecond of the window.
    until_us: u64,
    /// The rest of that moment, or what the window used: never zero.
    part: u32,
    origin: OriginId,
}

/// A state beside the name of its plan; `None` while a decision has it in hand.
pub(crate) struct Kept {
    pub(crate) name: PlanName,
    pub(crate) state: Option<State>,
}

/// The states of a chain of plans, in their order.
pub(crate) type States = SmallVec<[Option<State>; 2]>;

impl Entry for PlanEntry {
    const NONE: Self = Self::Many(None);

    fn expires_at_us(&self) -> u64 {
        match self {
            Self::One(inline) => inline.expires_at_us(),
            Self::Many(kept) => kept
                .iter()
                .flatten()
                .map(Kept::expires_at_us)
                .max()
                .unwrap_or(0),
        }
    }
}

impl PlanEntry {
    /// Packs `kept` as small as it goes; `None` if it is empty.
    pub(crate) fn pack(kept: Vec<Kept>, origins: &mut Origins) -> Option<Self> {
        match kept.as_slice() {
            [] => None,
            [one] if let Some(inline) = Inline::pack(one, origins) => Some(Self::One(inline)),
            _ => Some(Self::Many(Some(kept.into_boxed_slice()))),
        }
    }

    /// Turns the entry into a list, leaving nothing in it.
    pub(crate) fn unpack(&mut self, origins: &Origins) -> Vec<Kept> {
        match std::mem::replace(self, Self::NONE) {
            Self::One(inline) => inline.unpack(origins).into_iter().collect(),
            Self::Many(kept) => kept.map_or_else(Vec::new, <[Kept]>::into_vec),
        }
    }

    /// Returns whether there is a state, live or not, for each of `plans`.
    pub(crate) fn has_all(&self, plans: &[Plan], origins: &Origins) -> bool {
        match (self, plans) {
            (Self::One(inline), [plan]) => inline.kind_for(plan, origins).is_some(),
            (Self::Many(Some(kept)), plans) => plans
                .iter()
                .all(|plan| kept.iter().any(|kept| kept.name == *plan.name())),
            _ => false,
        }
    }

    /// Hands out the states of `plans` that mean something at `now`.
    pub(crate) fn take(&mut self, plans: &[Plan], now: Timestamp, origins: &Origins) -> States {
        let take = |plan: &Plan| match self {
            Self::One(inline) => inline.live_state(inline.kind_for(plan, origins)?, now),
            Self::Many(Some(kept)) => kept
                .iter_mut()
                .find(|kept| kept.name == *plan.name())?
                .state
                .take_if(|state| is_live(state, now)),
            Self::Many(None) => None,
        };
        plans.iter().map(take).collect()
    }

    /// Takes back the states of `plans`, after a decision at `now`; returns the whole as a list if it does not fit in
    /// place.
    pub(crate) fn put_back(
        &mut self,
        plans: &[Plan],
        mut states: States,
        now: Timestamp,
        origins: &Origins,
    ) -> Option<Vec<Kept>> {
        if let Self::One(inline) = self {
            if let ([plan], [Some(state)]) = (plans, states.as_slice())
                && let Some(kind) = inline.kind_for(plan, origins)
                && inline.write(state, kind)
            {
                return None;
            }
            let was_in_hand = plans
                .iter()
                .any(|plan| inline.kind_for(plan, origins).is_some())
                && inline.expires_at_us() > now.as_micros();
            let mut kept = self.unpack(origins);
            if was_in_hand {
                for kept in &mut kept {
                    kept.state = None;
                }
            }
            *self = Self::Many(Some(kept.into_boxed_slice()));
        }
        let Self::Many(Some(kept)) = self else {
            return None;
        };
        if fill(kept, plans, &mut states) {
            return None;
        }
        let mut kept = self.unpack(origins);
        kept.retain(|kept| kept.state.is_some());
        kept.extend(named(plans, states));
        Some(kept)
    }

    /// Returns the origin that the entry was charged under, if it is kept inline.
    pub(crate) fn origin_mut(&mut self) -> Option<&mut OriginId> {
        match self {
            Self::One(inline) => Some(&mut inline.origin),
            Self::Many(_) => None,
        }
    }
}

/// Puts names to the states that there are.
pub(crate) fn named(plans: &[Plan], states: States) -> impl Iterator<Item = Kept> {
    let name = |(plan, state): (&Plan, Option<State>)| {
        let name = plan.name().clone();
        state.map(|state| Kept {
            name,
            state: Some(state),
        })
    };
    plans.iter().zip(states).filter_map(name)
}

/// Puts `states` where their names are; `false` if one is left over or a name is left without.
fn fill(kept: &mut [Kept], plans: &[Plan], states: &mut States) -> bool {
    for (plan, state) in plans.iter().zip(states.iter_mut()) {
        if state.is_some()
            && let Some(place) = kept.iter_mut().find(|kept| kept.name == *plan.name())
        {
            place.state = state.take();
        }
    }
    states.iter().all(Option::is_none) && kept.iter().all(|kept| kept.state.is_some())
}

fn is_live(state: &State, now: Timestamp) -> bool {
    state.expires_at_us() > now.as_micros()
}

impl Kept {
    pub(crate) fn expires_at_us(&self) -> u64 {
        self.state.as_ref().map_or(0, State::expires_at_us)
    }
}

impl Inline {
    fn pack(kept: &Kept, origins: &mut Origins) -> Option<Self> {
        let state = kept.state.as_ref()?;
        let kind = kind(state)?;
        let mut inline = Self {
            since_us: 0,
            until_us: 0,
            part: 0,
            origin: origins.intern(&kept.name, kind)?,
        };
        inline.write(state, &kind).then_some(inline)
    }

    fn unpack(&self, origins: &Origins) -> Option<Kept> {
        let origin = origins.get(self.origin)?;
        Some(Kept {
            name: origin.name.clone(),
            state: self.state(&origin.kind),
        })
    }

    /// Returns how to read the numbers, if they are those of `plan`.
    #[inline]
    pub(crate) fn kind_for<'a>(&self, plan: &Plan, origins: &'a Origins) -> Option<&'a Kind> {
        let origin = origins.get(self.origin)?;
        (origin.name == *plan.name()).then_some(&origin.kind)
    }

    #[inline]
    pub(crate) fn expires_at_us(&self) -> u64 {
        self.until_us + u64::from(self.part > 0)
    }

    /// Returns the state, unless it has expired at `now`.
    #[inline]
    pub(crate) fn live_state(&self, kind: &Kind, now: Timestamp) -> Option<State> {
        if self.expires_at_us() <= now.as_micros() {
            return None;
        }
        self.state(kind)
    }

    #[inline]
    fn state(&self, kind: &Kind) -> Option<State> {
        let since = Timestamp::from_micros(self.since_us).ok()?;
        match *kind {
            Kind::Bucket(rate) => BucketState::from_parts(since, self.until_us, self.part, rate)
                .map(State::TokenBucket),
            Kind::Fixed => {
                FixedState::from_parts(since, self.until_us + 1, self.part).map(State::FixedWindow)
            }
        }
    }

    /// Keeps the numbers of `state`; `false`, and nothing kept, if it is of another kind.
    #[inline]
    pub(crate) fn write(&mut self, state: &State, kind: &Kind) -> bool {
        (self.since_us, self.until_us, self.part) = match (state, kind) {
            (State::TokenBucket(state), Kind::Bucket(rate)) if state.rate() == *rate => (
                state.seen().as_micros(),
                state.full_at_us(),
                state.full_at_part(),
            ),
            (State::FixedWindow(state), Kind::Fixed) => (
                state.began().as_micros(),
                state.ends_at_us() - 1,
                state.used(),
            ),
            _ => return false,
        };
        true
    }
}

/// Returns how to read the numbers of `state`, if it can be kept inline.
fn kind(state: &State) -> Option<Kind> {
    match state {
        State::TokenBucket(state) => Some(Kind::Bucket(state.rate())),
        State::FixedWindow(_) => Some(Kind::Fixed),
        State::SlidingWindow(_) | State::SuppressingWindow(_) => None,
    }
}
