//! [`Chain`]: the plans of one request, one or several.

use std::slice;

use smallvec::SmallVec;

use crate::{Plan, PlanDecision, PlanVerdict};

/// How each plan of a chain stands. One plan, the commonest chain, needs no memory of its own.
pub(crate) type Standings = SmallVec<[PlanDecision; 1]>;

/// The plans of one request. One plan is a chain as it is, so that the commonest request neither makes a list nor goes
/// through one.
pub(crate) trait Chain: Send + Sync {
    /// Returns the plans, in the order in which they were asked for.
    fn plans(&self) -> &[Plan];

    /// Puts the plans to what was said of each.
    fn told(self, verdicts: &[PlanVerdict]) -> Standings;
}

impl Chain for Plan {
    #[inline]
    fn plans(&self) -> &[Plan] {
        slice::from_ref(self)
    }

    #[inline]
    fn told(self, verdicts: &[PlanVerdict]) -> Standings {
        match verdicts {
            [verdict, ..] => SmallVec::from_buf([PlanDecision::new(self, verdict)]),
            [] => SmallVec::new(),
        }
    }
}

impl Chain for SmallVec<[Plan; 1]> {
    fn plans(&self) -> &[Plan] {
        self
    }

    fn told(self, verdicts: &[PlanVerdict]) -> Standings {
        let each = self.into_iter().zip(verdicts);
        each.map(|(plan, verdict)| PlanDecision::new(plan, verdict))
            .collect()
    }
}
