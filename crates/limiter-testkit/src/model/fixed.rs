//! A fixed window as spans of time, each with the units that were spent since it began.

use limiter_core::FixedRule;

use super::kept::Part;

/// The spans that have not run out, the one that began first in front.
#[derive(Clone, Debug)]
pub(super) struct Fixed(Vec<Span>);

#[derive(Clone, Debug)]
struct Span {
    began: u128,
    /// When it ends by the longest of the plans that it was used under.
    runs_out_at: u128,
    units: u128,
}

/// So many are remembered.
const SPANS: usize = 4;
/// So many units are counted in one.
const UNITS: u128 = (1 << 31) - 1;

impl Span {
    /// Returns when the span ends for a plan: a window of that plan after it began, if it has not
    /// run out by then.
    fn ends_at(&self, rule: &FixedRule) -> u128 {
        self.runs_out_at
            .min(self.began + u128::from(rule.window_us()))
    }
}

impl Fixed {
    /// Returns a window that `cost` has just begun.
    pub(super) fn spent(rule: &FixedRule, now: u128, cost: u128) -> Self {
        Self(Vec::new()).after_spend(rule, now, cost)
    }

    /// The last beginning of a span.
    pub(super) fn began(&self) -> u128 {
        self.last_of(|span| span.began)
    }

    pub(super) fn runs_out_at(&self) -> u128 {
        self.last_of(|span| span.runs_out_at)
    }

    /// Returns when the last span ends for a plan.
    pub(super) fn ends_at(&self, rule: &FixedRule) -> u128 {
        self.last_of(|span| span.ends_at(rule))
    }

    /// Returns the first moment at which a plan finds at most so many units.
    pub(super) fn holds_at_most_from(&self, rule: &FixedRule, units: u128, now: u128) -> u128 {
        let ends = self.0.iter().map(|span| span.ends_at(rule));
        let mut moments: Vec<u128> = ends.filter(|end| *end > now).collect();
        moments.push(now);
        moments.sort_unstable();
        let found = moments
            .into_iter()
            .find(|moment| self.units(rule, *moment) <= units);
        found.unwrap_or(now)
    }

    /// Returns the units that a plan finds: the most that any span holds that has not ended for it.
    pub(super) fn units(&self, rule: &FixedRule, now: u128) -> u128 {
        let running = self.0.iter().filter(|span| now < span.ends_at(rule));
        running.map(|span| span.units).max().unwrap_or(0)
    }

    /// All spans that have not run out count on. For this plan the first that runs goes on, or
    /// another one begins.
    pub(super) fn after_spend(self, rule: &FixedRule, now: u128, cost: u128) -> Self {
        let mut spans = self.0;
        spans.retain(|span| now < span.runs_out_at);
        let window = u128::from(rule.window_us());
        if let Some(first) = spans.iter_mut().find(|span| now < span.ends_at(rule)) {
            first.runs_out_at = first.runs_out_at.max(first.began + window);
        } else {
            if spans.len() == SPANS {
                let soonest = spans.iter().map(|span| span.runs_out_at).min();
                let nth = spans
                    .iter()
                    .position(|span| Some(span.runs_out_at) == soonest);
                spans.remove(nth.unwrap_or(0));
            }
            spans.push(Span {
                began: now,
                runs_out_at: now + window,
                units: 0,
            });
        }
        for span in &mut spans {
            span.units = UNITS.min(span.units + cost);
        }
        Self(spans)
    }

    /// Gives back what was charged since a span began that has not ended for the plan; every span
    /// that counted it counts less.
    pub(super) fn after_refund(self, rule: &FixedRule, now: u128, part: Part) -> Option<Self> {
        let runs = |span: &Span| span.began <= part.charged_at && now < span.ends_at(rule);
        if !self.0.iter().any(runs) {
            return Some(self);
        }
        let mut spans = self.0;
        spans.retain(|span| now < span.runs_out_at);
        for span in &mut spans {
            if span.began <= part.charged_at {
                span.units = span.units.saturating_sub(part.units);
            }
        }
        spans.retain(|span| span.units > 0);
        (!spans.is_empty()).then_some(Self(spans))
    }

    fn last_of(&self, moment: impl Fn(&Span) -> u128) -> u128 {
        self.0.iter().map(moment).max().unwrap_or(0)
    }
}
