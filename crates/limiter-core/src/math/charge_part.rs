//! [`ChargePart`]: what is to be given back of one charge under one plan.

use crate::{Refund, Timestamp};

/// What is to be given back of one charge under one plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChargePart {
    /// When the plan was charged, as it counts time.
    pub(super) charged_at: Timestamp,
    /// What was charged and not given back before.
    pub(super) left: u32,
    /// How much of that to give back, at most.
    pub(super) units: u32,
}

impl ChargePart {
    pub(super) fn new(charged_at: Timestamp, refund: &Refund) -> Self {
        let left = refund.charged.get().saturating_sub(refund.given_back);
        Self {
            charged_at,
            left,
            units: refund.units.get().min(left),
        }
    }
}
