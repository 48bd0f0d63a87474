//! [`Kept`]: states with the names of their plans, for keys that have more than an entry takes.

use limiter_core::math::State;
use limiter_core::{Plan, PlanName, Timestamp};
use smallvec::SmallVec;

/// A state beside the name of its plan; `None` while a decision has it in hand.
pub(crate) struct Kept {
    pub(crate) name: PlanName,
    pub(crate) state: Option<State>,
}

/// The states of a chain of plans, in their order.
pub(crate) type States = SmallVec<[Option<State>; 2]>;

impl Kept {
    pub(crate) fn expires_at_us(&self) -> u64 {
        self.state.as_ref().map_or(0, State::expires_at_us)
    }
}

/// Puts names to the states that there are.
pub(crate) fn named(plans: &[Plan], states: States) -> impl Iterator<Item = Kept> {
    let name = |(plan, state): (&Plan, Option<State>)| {
        state.map(|state| Kept {
            name: plan.name().clone(),
            state: Some(state),
        })
    };
    plans.iter().zip(states).filter_map(name)
}

/// Hands out the states of `plans` that mean something at `now`.
pub(crate) fn take_live(kept: &mut [Kept], plans: &[Plan], now: Timestamp) -> States {
    let take = |plan: &Plan| {
        let kept = kept.iter_mut().find(|kept| kept.name == *plan.name())?;
        kept.state
            .take_if(|state| state.expires_at_us() > now.as_micros())
    };
    plans.iter().map(take).collect()
}

/// Puts `states` where their names are; `false` if one is left over or a name is left without.
pub(crate) fn fill(kept: &mut [Kept], plans: &[Plan], states: &mut States) -> bool {
    for (plan, state) in plans.iter().zip(states.iter_mut()) {
        if state.is_some()
            && let Some(place) = kept.iter_mut().find(|kept| kept.name == *plan.name())
        {
            place.state = state.take();
        }
    }
    states.iter().all(Option::is_none) && kept.iter().all(|kept| kept.state.is_some())
}
