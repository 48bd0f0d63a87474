//! A fixed window as a count with a beginning and an end.

use limiter_core::FixedRule;

use super::kept::Part;

#[derive(Clone, Copy, Debug)]
pub(super) struct Fixed {
    began: u128,
    ends_at: u128,
    units: u128,
}

impl Fixed {
    /// Returns a window that `cost` has just begun.
    pub(super) fn spent(rule: &FixedRule, now: u128, cost: u128) -> Self {
        Self {
            began: now,
            ends_at: now + u128::from(rule.window_us()),
            units: cost,
        }
    }

    pub(super) const fn began(&self) -> u128 {
        self.began
    }

    pub(super) const fn ends_at(&self) -> u128 {
        self.ends_at
    }

    pub(super) const fn units(&self, now: u128) -> u128 {
        if now < self.ends_at { self.units } else { 0 }
    }

    /// A window that is still running goes on, but no longer than one window of the plan as it is now.
    pub(super) fn after_spend(self, rule: &FixedRule, now: u128, cost: u128) -> Self {
        if now >= self.ends_at {
            return Self::spent(rule, now, cost);
        }
        let now = now.max(self.began);
        Self {
            ends_at: self.ends_at.min(now + u128::from(rule.window_us())),
            units: self.units + cost,
            ..self
        }
    }

    /// Gives back only what was charged within the window that is running.
    pub(super) fn after_refund(self, now: u128, part: Part) -> Option<Self> {
        if now >= self.ends_at || part.charged_at < self.began {
            return Some(self);
        }
        let units = self.units(now).saturating_sub(part.units);
        (units > 0).then_some(Self { units, ..self })
    }
}
