//! What every call to a store must be: a bounded chain of distinct plans, and a cost that each of them can admit.

use crate::{Cost, Plan, PlanName};

/// The most plans that one call may chain.
pub const MAX_CHAIN: usize = 16;

/// Checks a chain of plans and, if there is one, the cost to be spent under it.
///
/// | input | answer |
/// |---|---|
/// | no plan | [`InvalidRequest::NoPlans`] |
/// | more than 16 plans | [`InvalidRequest::TooManyPlans`] |
/// | a plan twice (case apart) | [`InvalidRequest::DuplicatePlan`] |
/// | a cost that a plan can never admit | [`InvalidRequest::CostTooLarge`] |
///
/// Every [`RateLimiterRepository`](crate::RateLimiterRepository) calls this first, so that nothing is charged for a bad
/// call.
///
/// # Errors
/// [`InvalidRequest`], as in the table.
#[inline]
pub fn check_request(plans: &[Plan], cost: Option<Cost>) -> Result<(), InvalidRequest> {
    match plans {
        [] => Err(InvalidRequest::NoPlans),
        [plan] => check_cost(plan, cost),
        plans => check_chain(plans, cost),
    }
}

fn check_chain(plans: &[Plan], cost: Option<Cost>) -> Result<(), InvalidRequest> {
    if plans.len() > MAX_CHAIN {
        return Err(InvalidRequest::TooManyPlans { plans: plans.len() });
    }
    for (nth, plan) in plans.iter().enumerate() {
        let mut earlier = plans.iter().take(nth);
        if earlier.any(|earlier| earlier.name() == plan.name()) {
            return Err(InvalidRequest::DuplicatePlan {
                plan: plan.name().clone(),
            });
        }
        check_cost(plan, cost)?;
    }
    Ok(())
}

#[inline]
fn check_cost(plan: &Plan, cost: Option<Cost>) -> Result<(), InvalidRequest> {
    let max = plan.limit().max_cost();
    match cost {
        Some(cost) if cost.get() > max => Err(InvalidRequest::CostTooLarge {
            plan: plan.name().clone(),
            cost,
            max,
        }),
        _ => Ok(()),
    }
}

/// Says why a call can never be answered. Nothing was charged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// No plan was named.
    #[error("no plan is named: name 1 to {MAX_CHAIN} plans")]
    NoPlans,
    /// Too many plans were named.
    #[error("{plans} plans are named: name 1 to {MAX_CHAIN} plans")]
    TooManyPlans {
        /// How many there were.
        plans: usize,
    },
    /// One plan was named twice.
    #[error("plan {plan} is named twice in one chain: name each plan once")]
    DuplicatePlan {
        /// The plan.
        plan: PlanName,
    },
    /// The cost is more than the plan can ever admit.
    #[error(
        "cost {cost} is more than plan {plan} can ever admit: spend at most {max}, or raise the plan"
    )]
    CostTooLarge {
        /// The plan.
        plan: PlanName,
        /// The cost asked for.
        cost: Cost,
        /// The largest cost that the plan can admit.
        max: u32,
    },
    /// More is to be given back than is left of the charge.
    #[error(
        "refund of {units} is more than the {left} that are left of the charge: refund at most that"
    )]
    RefundTooLarge {
        /// The units asked for.
        units: Cost,
        /// The units that can still be given back.
        left: u32,
    },
    /// The receipt is of a charge that was made elsewhere.
    #[error("receipt is of another limiter: refund it where it was charged")]
    ForeignReceipt,
}
