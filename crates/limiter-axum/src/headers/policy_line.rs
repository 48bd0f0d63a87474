//! [`PolicyLine`]: the field that hardly ever changes, kept as it was written.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::HeaderValue;
use limiter_core::{Decision, Limit, PlanName};

use super::{draft11, shown};

/// The `RateLimit-Policy` of one limit, as it was last written: plans are replaced now and then, and told all the time.
#[derive(Default)]
pub(crate) struct PolicyLine(ArcSwapOption<Written>);

struct Written {
    plans: Vec<(PlanName, Limit)>,
    line: HeaderValue,
}

impl PolicyLine {
    /// Returns the line for `decision`.
    pub(super) fn of(&self, decision: &Decision) -> Option<HeaderValue> {
        let written = self.0.load();
        if let Some(written) = written.as_deref()
            && written.tells(decision)
        {
            return Some(written.line.clone());
        }
        let line = draft11::policy_line(decision)?;
        let plans = shown(decision).map(|plan| (plan.name.clone(), plan.limit));
        self.0.store(Some(Arc::new(Written {
            plans: plans.collect(),
            line: line.clone(),
        })));
        Some(line)
    }
}

impl Written {
    fn tells(&self, decision: &Decision) -> bool {
        let mut plans = shown(decision);
        let alike = |(name, limit): &(PlanName, Limit)| {
            let plan = plans.next();
            plan.is_some_and(|plan| plan.limit == *limit && plan.name == *name)
        };
        self.plans.iter().all(alike) && plans.next().is_none()
    }
}

impl fmt::Debug for PolicyLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = self.0.load();
        let line = written.as_ref().map(|written| &written.line);
        f.debug_tuple("PolicyLine").field(&line).finish()
    }
}
