//! [`Receipt`]: what a decision charged.

use smallvec::SmallVec;

use crate::{Cost, InvalidRequest, Key, PlanDecision, PlanName, Refund, Source, Timestamp};

/// What a decision charged, where and when: the only thing that can be refunded.
///
/// There is one for each charge, from [`Decision::take_receipt`](crate::Decision::take_receipt); it remembers what was given
/// back. Dropped, the charge stays.
///
/// It is for the limiter that made it. It names plans and a source, and does not hold the store:
/// what another limiter does with it depends on what the two share.
///
/// | the other limiter | a refund there |
/// |---|---|
/// | has not all of the plans | [`CheckError::UnknownPlan`](crate::CheckError::UnknownPlan) |
/// | has no local store, and one of a failure policy charged | [`InvalidRequest::ForeignReceipt`] |
/// | asks the store that charged, under the same plans | as with the limiter that made it |
/// | asks another store | that one cannot tell, and may free what others spent there |
///
/// In the last case it frees at most what is left of the receipt, and only under the same key and
/// plans.
///
/// # Examples
/// ```
/// # use std::sync::Arc;
/// # use limiter_core::{Cost, DefaultRateLimiter, InMemoryPlanRegistry, Key, Plan, PlanName, RateLimiter};
/// # use limiter_testkit::{ModelStore, block_on};
/// # let plans = Arc::new(InMemoryPlanRegistry::new([Plan::new("gold", "fixed 10/h")?])?);
/// # let limiter = DefaultRateLimiter::new(plans, Arc::new(ModelStore::new()));
/// # let (ada, gold) = (Key::new("ada")?, [PlanName::new("gold")?]);
/// # block_on(async {
/// let mut decision = limiter.check(&ada, &gold, Cost::new(5)?).await?;
/// let mut receipt = decision.take_receipt().ok_or("denied")?;
/// let decision = limiter.refund(&mut receipt, Cost::new(2)?).await?;
/// assert_eq!(decision.plans()[0].remaining, 7);
/// assert_eq!(receipt.left(), Some(Cost::new(3)?));
/// assert!(limiter.refund(&mut receipt, Cost::new(4)?).await.is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// There is never a second one:
/// ```compile_fail,E0599
/// fn twice(receipt: limiter_core::Receipt) -> [limiter_core::Receipt; 2] {
///     [receipt.clone(), receipt]
/// }
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Receipt {
    key: Key,
    plans: SmallVec<[PlanName; 1]>,
    charged_at: SmallVec<[Option<Timestamp>; 2]>,
    source: Source,
    by_policy: bool,
    charged: Cost,
    given_back: u32,
}

impl Receipt {
    /// Returns who was charged.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the plans of the chain, also those in shadow that did not admit the request and were not charged.
    #[must_use]
    pub fn plans(&self) -> &[PlanName] {
        &self.plans
    }

    /// Returns who charged.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// Returns what was charged under each plan.
    #[must_use]
    pub const fn charged(&self) -> Cost {
        self.charged
    }

    /// Returns how much of it can still be given back; `None` if nothing can.
    ///
    /// What may have been given back, by a call that was dropped or whose answer was lost, cannot be given back again.
    #[must_use]
    pub fn left(&self) -> Option<Cost> {
        Cost::new(self.charged.get().saturating_sub(self.given_back)).ok()
    }

    /// Returns whether the failure policy of a limiter charged it, and not the limiter's repository.
    pub(crate) const fn is_by_policy(&self) -> bool {
        self.by_policy
    }

    /// Says what to ask a store for, to give `units` back.
    pub(crate) fn refund(&self, units: Cost) -> Result<Refund, InvalidRequest> {
        let left = self.charged.get().saturating_sub(self.given_back);
        if units.get() > left {
            return Err(InvalidRequest::RefundTooLarge { units, left });
        }
        Ok(Refund {
            source: self.source,
            charged_at: self.charged_at.clone(),
            charged: self.charged,
            given_back: self.given_back,
            units,
        })
    }

    /// Remembers that `units` were given back, or may be from now on.
    pub(crate) fn note(&mut self, units: Cost) {
        self.given_back = self.given_back.saturating_add(units.get());
    }

    /// Remembers that `units` were certainly not given back.
    pub(crate) fn forget(&mut self, units: Cost) {
        self.given_back = self.given_back.saturating_sub(units.get());
    }
}

/// What makes a receipt of a decision, until it is taken.
///
/// A clone has none, so that no charge is given back twice. Two decisions that say the same are equal with and without it.
#[derive(Debug, Default)]
pub(crate) struct Unclaimed(Option<Claim>);

#[derive(Debug)]
struct Claim {
    key: Key,
    charged: Cost,
    by_policy: bool,
}

impl Unclaimed {
    pub(crate) const NONE: Self = Self(None);

    #[inline]
    pub(crate) fn new(key: &Key, charged: Cost, by_policy: bool) -> Self {
        Self(Some(Claim {
            key: key.clone(),
            charged,
            by_policy,
        }))
    }

    pub(crate) fn take(&mut self, source: Source, plans: &[PlanDecision]) -> Option<Receipt> {
        let claim = self.0.take()?;
        let charged_at: SmallVec<_> = plans.iter().map(|plan| plan.charged_at).collect();
        charged_at.iter().flatten().next()?;
        Some(Receipt {
            key: claim.key,
            plans: plans.iter().map(|plan| plan.plan.name().clone()).collect(),
            charged_at,
            source,
            by_policy: claim.by_policy,
            charged: claim.charged,
            given_back: 0,
        })
    }
}

impl Clone for Unclaimed {
    fn clone(&self) -> Self {
        Self::NONE
    }
}

impl PartialEq for Unclaimed {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Unclaimed {}
