//! [`Refund`]: what a store is asked to give back of one charge.

use smallvec::SmallVec;

use crate::{Cost, InvalidRequest, Plan, Source, Timestamp, Verdict, request};

/// Units of one earlier charge that a store is asked to give back, the same number under each plan of its chain.
///
/// A [`Receipt`](crate::Receipt) makes it for a limiter. Who asks a store directly makes it of the verdict that admitted the
/// request.
///
/// # Examples
/// ```
/// # use limiter_core::{Cost, Key, Plan, RateLimiterRepository, Refund};
/// # use limiter_testkit::{ModelStore, block_on};
/// # let (store, ada) = (ModelStore::new(), Key::new("ada")?);
/// # block_on(async {
/// let (plans, cost) = ([Plan::new("gold", "fixed 10/h")?], Cost::new(3)?);
/// let verdict = store.try_acquire(&ada, &plans, cost).await?;
/// let refund = Refund::of(&verdict, cost);
/// assert_eq!(store.refund(&ada, &plans, &refund).await?.plans[0].remaining, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refund {
    /// Who charged: [`Verdict::source`].
    pub source: Source,
    /// When each plan was charged, in the order of the chain; `None` for a plan that was not, which gets nothing back.
    pub charged_at: SmallVec<[Option<Timestamp>; 2]>,
    /// The units that were charged under each plan.
    pub charged: Cost,
    /// How many of them were given back before, or may have been.
    pub given_back: u32,
    /// How many to give back now.
    pub units: Cost,
}

impl Refund {
    /// Gives back all that a request of `cost` was charged, of which nothing was given back yet.
    #[must_use]
    pub fn of(verdict: &Verdict, cost: Cost) -> Self {
        Self {
            source: verdict.source,
            charged_at: verdict.plans.iter().map(|plan| plan.charged_at).collect(),
            charged: cost,
            given_back: 0,
            units: cost,
        }
    }

    /// Returns the same, but for `units` alone, after `given_back` were given back before.
    #[must_use]
    pub fn part(self, given_back: u32, units: Cost) -> Self {
        Self {
            given_back,
            units,
            ..self
        }
    }
}

/// Checks a chain of plans and what is to be given back under it.
///
/// | input | answer |
/// |---|---|
/// | a chain that [`check_request`](crate::check_request) refuses | its answer |
/// | another number of moments than of plans | [`InvalidRequest::ForeignReceipt`] |
/// | more units than are left of the charge | [`InvalidRequest::RefundTooLarge`] |
///
/// A plan that was made smaller than the charge still gets it back.
///
/// # Errors
/// [`InvalidRequest`], as in the table.
pub fn check_refund(plans: &[Plan], refund: &Refund) -> Result<(), InvalidRequest> {
    request::check_request(plans, None)?;
    if plans.len() != refund.charged_at.len() {
        return Err(InvalidRequest::ForeignReceipt);
    }
    let left = refund.charged.get().saturating_sub(refund.given_back);
    if refund.units.get() > left {
        let units = refund.units;
        return Err(InvalidRequest::RefundTooLarge { units, left });
    }
    Ok(())
}
