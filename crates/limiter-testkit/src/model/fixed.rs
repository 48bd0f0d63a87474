//! A fixed window as a count with a beginning and an end.

use limiter_core::FixedRule;

use super::kept::Part;

#[derive(Clone, Copy, Debug)]
pub(super) struct Fixed {
    began: u128,
    /// When it ends by the longest of the plans that it was used under.
    runs_out_at: u128,
    units: u128,
}

impl Fixed {
    /// Returns a window that `cost` has just begun.
    pub(super) fn spent(rule: &FixedRule, now: u128, cost: u128) -> Self {
        Self {
            began: now,
            runs_out_at: now + u128::from(rule.window_us()),
            units: cost,
        }
    }

    pub(super) const fn began(&self) -> u128 {
        self.began
    }

    pub(super) const fn runs_out_at(&self) -> u128 {
        self.runs_out_at
    }

    /// Returns when the window ends for a plan: a window of that plan after it began, if it has not run out by then.
    pub(super) fn ends_at(&self, rule: &FixedRule) -> u128 {
        self.runs_out_at
            .min(self.began + u128::from(rule.window_us()))
    }

    pub(super) fn units(&self, rule: &FixedRule, now: u128) -> u128 {
        if now < self.ends_at(rule) {
            self.units
        } else {
            0
        }
    }

    /// A window that is still running goes on.
    pub(super) fn after_spend(self, rule: &FixedRule, now: u128, cost: u128) -> Self {
        if now >= self.ends_at(rule) {
            return Self::spent(rule, now, cost);
        }
        Self {
            runs_out_at: self
                .runs_out_at
                .max(self.began + u128::from(rule.window_us())),
            units: self.units + cost,
            ..self
        }
    }

    /// Gives back only what was charged within the window that is running.
    pub(super) fn after_refund(self, rule: &FixedRule, now: u128, part: Part) -> Option<Self> {
        if now >= self.ends_at(rule) || part.charged_at < self.began {
            return Some(self);
        }
        let units = self.units.saturating_sub(part.units);
        (units > 0).then_some(Self { units, ..self })
    }
}
