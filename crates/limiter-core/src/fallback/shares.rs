//! [`Shares`]: what one node grants of a chain of plans.

use super::Share;
use crate::{Cost, Plan, PlanVerdict, Refund, Verdict};

/// What one node grants a request under a chain of plans.
pub(crate) struct Shares {
    granting: Vec<Plan>,
    /// The plans of which the share is too small for anything or below the cost of the request, and
    /// their places in the chain.
    denying: Vec<(usize, Plan)>,
}

impl Shares {
    pub(super) fn new(share: Share, plans: &[Plan], cost: Cost) -> Self {
        let (mut granting, mut denying) = (Vec::with_capacity(plans.len()), Vec::new());
        for (nth, plan) in plans.iter().enumerate() {
            match share.of(plan) {
                Ok(share) if cost.get() <= share.limit().max_cost() => granting.push(share),
                _ => denying.push((nth, plan.clone())),
            }
        }
        Self { granting, denying }
    }

    /// Returns the shares that the request can fit in: what the local store is asked for.
    pub(super) fn granting(&self) -> &[Plan] {
        &self.granting
    }

    /// Returns whether the request can never fit in the share of a plan that is enforced.
    pub(super) fn deny(&self) -> bool {
        self.denying.iter().any(|(_, plan)| plan.is_enforced())
    }

    /// Returns what is to be given back under the plans of which this node grants a share.
    pub(super) fn granted_of(&self, refund: &Refund) -> Refund {
        let grants = |nth: usize| self.denying.iter().all(|(place, _)| *place != nth);
        let each = refund.charged_at.iter().enumerate();
        let granted = each.filter(|(nth, _)| grants(*nth));
        Refund {
            charged_at: granted.map(|(_, charged_at)| *charged_at).collect(),
            ..refund.clone()
        }
    }

    /// Adds the plans that deny to the verdict on the others.
    ///
    /// The local store is not asked about them, so they are told as used up. How long the shared store
    /// stays away nobody knows. The wait told is the longest that the plan itself makes anybody wait.
    pub(super) fn complete(&self, mut verdict: Verdict) -> Verdict {
        for (nth, plan) in &self.denying {
            let wait = plan.limit().window();
            let denial = PlanVerdict {
                reset_after: wait,
                retry_after: wait,
                ..PlanVerdict::default()
            };
            verdict.plans.insert(*nth, denial);
            if plan.is_enforced() {
                verdict.admitted = false;
                verdict.retry_after = verdict.retry_after.max(wait);
            }
        }
        verdict
    }
}
