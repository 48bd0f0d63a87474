//! [`Shares`]: what one node grants of a chain of plans.

use super::{Share, ShareTooSmall};
use crate::{Cost, LogThrottle, Plan, PlanVerdict, Refund, Verdict};

/// What one node grants a request under a chain of plans.
pub(crate) struct Shares {
    granting: Vec<Plan>,
    denying: Vec<Denying>,
}

/// A plan of which the share never admits the request.
struct Denying {
    /// Its place in the chain.
    nth: usize,
    plan: Plan,
    why: Why,
}

/// Why a share never admits a request.
#[derive(Debug, thiserror::Error)]
enum Why {
    #[error(transparent)]
    TooSmall(#[from] ShareTooSmall),
    #[error(
        "cost {cost} is more than this node's share of plan {}, which is {}",
        share.name(),
        share.limit().max_cost()
    )]
    BelowCost { cost: Cost, share: Plan },
}

impl Shares {
    pub(super) fn new(share: Share, plans: &[Plan], cost: Cost) -> Self {
        let (mut granting, mut denying) = (Vec::with_capacity(plans.len()), Vec::new());
        for (nth, plan) in plans.iter().enumerate() {
            match granted(share, plan, cost) {
                Ok(share) => granting.push(share),
                Err(why) => denying.push(Denying {
                    nth,
                    plan: plan.clone(),
                    why,
                }),
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
        self.denying_enforced().next().is_some()
    }

    /// Logs which shares deny, and why.
    pub(super) fn log_denials(&self, log: &LogThrottle) {
        for Denying { plan, why, .. } in self.denying_enforced() {
            let (kind, consequence) = match why {
                Why::TooSmall(_) => ("too small", "requests under it are denied"),
                Why::BelowCost { .. } => ("below cost", "such requests are denied"),
            };
            log.error(&format!("share {kind}: {}", plan.name()), || {
                format!("{why}; {consequence} while the shared store is away")
            });
        }
    }

    fn denying_enforced(&self) -> impl Iterator<Item = &Denying> {
        self.denying.iter().filter(|it| it.plan.is_enforced())
    }

    /// Returns what is to be given back under the plans of which this node grants a share.
    pub(super) fn granted_of(&self, refund: &Refund) -> Refund {
        let grants = |nth: usize| self.denying.iter().all(|it| it.nth != nth);
        let each = refund.charged_at.iter().enumerate();
        let granted = each.filter(|(nth, _)| grants(*nth));
        Refund {
            charged_at: granted.map(|(_, charged_at)| *charged_at).collect(),
            ..refund.clone()
        }
    }

    /// Adds the plans that deny to the verdict on the others.
    ///
    /// The local store is not asked about them, so they are told as used up. How long the shared
    /// store stays away nobody knows. The wait told is the longest that the plan itself makes
    /// anybody wait.
    pub(super) fn complete(&self, mut verdict: Verdict) -> Verdict {
        for Denying { nth, plan, .. } in &self.denying {
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

/// Returns this node's share of `plan`, if a request of `cost` can ever fit in it.
fn granted(share: Share, plan: &Plan, cost: Cost) -> Result<Plan, Why> {
    let share = share.of(plan)?;
    if cost.get() > share.limit().max_cost() {
        return Err(Why::BelowCost { cost, share });
    }
    Ok(share)
}
