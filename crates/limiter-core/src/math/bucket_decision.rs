//! [`BucketDecision`]: the short way to decide a chain that is one token bucket.

use std::slice;

use super::decide::{peek, until};
use super::{BucketState, State};
use crate::limit::BucketRule;
use crate::{Cost, Plan, PlanVerdict, Timestamp, Verdict};

/// What one token bucket makes of one request: what [`decide`](super::decide) does with a chain of one, in two halves. A
/// store holds its lock for the first, and only what the first returns is moved.
#[derive(Clone, Copy, Debug)]
pub struct BucketDecision {
    /// Whether the request was admitted, and charged.
    pub admits: bool,
    /// The bucket from now on; `None` if it is full.
    pub state: Option<BucketState>,
}

impl BucketDecision {
    /// Decides a request of `cost` at `now`.
    #[must_use]
    #[inline]
    pub fn make(rule: &BucketRule, state: Option<BucketState>, now: Timestamp, cost: Cost) -> Self {
        let admits = rule.admits(state.as_ref(), now, cost);
        let state = if admits {
            Some(rule.spend(state.as_ref(), now, cost))
        } else {
            state
        };
        Self { admits, state }
    }

    /// Decides as [`make`](Self::make) does, and charges as it does, if at least one token stays; else nothing is charged.
    #[must_use]
    #[inline]
    pub fn make_if_plenty(
        rule: &BucketRule,
        state: Option<BucketState>,
        now: Timestamp,
        cost: Cost,
    ) -> Self {
        let spent = rule.spend(state.as_ref(), now, cost);
        let admits = rule.admits(Some(&spent), now, Cost::ONE);
        let state = if admits { Some(spent) } else { state };
        Self { admits, state }
    }

    /// Says what was decided under `plan`, whose limit is `rule`, on the same request.
    ///
    /// Not inlined, so that the verdict is written where the caller wants it: it is large, and a copy costs more than the
    /// math.
    #[inline(never)]
    pub fn verdict(self, plan: &Plan, rule: &BucketRule, now: Timestamp, cost: Cost) -> Verdict {
        match self.state {
            Some(state) if self.admits => {
                let remaining = rule.remaining(Some(&state), now);
                Verdict::admitted_by_one(PlanVerdict {
                    admits: true,
                    charged_at: Some(now.max(state.seen())),
                    remaining,
                    free_after_wait: remaining,
                    reset_after: until(now, rule.full_at_us(&state)),
                    ..PlanVerdict::default()
                })
            }
            state => denial(plan, state, now, cost),
        }
    }
}

/// A request that does not fit is not charged, so a look at the bucket gives the same answer. Apart, so that who is admitted
/// does not pay for the room that it takes.
#[inline(never)]
fn denial(plan: &Plan, state: Option<BucketState>, now: Timestamp, cost: Cost) -> Verdict {
    let state = state.map(State::TokenBucket);
    peek(slice::from_ref(plan), &[state], now, cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limit;
    use crate::math::{Draw, decide};
    use proptest::prelude::*;

    const LIMITS: [&str; 4] = ["3/s burst 7", "5.5/s", "1000/24h", "100000000/s"];

    proptest! {
        #[test]
        fn prop_a_bucket_is_decided_as_a_chain_of_one(
            limit in 0..LIMITS.len(),
            shadow in any::<bool>(),
            calls in proptest::collection::vec((-100_000..400_000_i64, 1..4_u32), 1..40),
        ) {
            let plan = Plan::new("gold", LIMITS[limit]).unwrap();
            let plan = if shadow { plan.in_shadow() } else { plan };
            let Limit::TokenBucket(rule) = plan.limit() else { unreachable!() };
            let (mut state, mut states, mut now) = (None, [None], 1_u64 << 40);
            for (step_us, cost) in calls {
                now = now.saturating_add_signed(step_us);
                let (at, cost) = (Timestamp::from_micros(now).unwrap(), Cost::new(cost).unwrap());
                let decision = BucketDecision::make(rule, state, at, cost);
                let plenty = BucketDecision::make_if_plenty(rule, state, at, cost);
                let chain = decide(slice::from_ref(&plan), &mut states, at, cost, Draw::LOWEST);
                let one_stays = decision.admits && chain.plans[0].remaining > 0;
                let kept = if one_stays { decision.state } else { state };
                prop_assert_eq!((plenty.admits, plenty.state), (one_stays, kept));
                prop_assert_eq!(decision.verdict(&plan, rule, at, cost), chain);
                state = decision.state;
                prop_assert_eq!(state.map(State::TokenBucket), states[0].clone());
            }
        }
    }
}
