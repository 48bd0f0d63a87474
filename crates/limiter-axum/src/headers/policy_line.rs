//! [`PolicyLine`]: the field that hardly ever changes, kept as it was written.

use std::fmt;
use std::sync::OnceLock;

use http::HeaderValue;
use limiter_core::{Decision, Plan};

use super::{draft11, shown};

/// The `RateLimit-Policy` of one limit, as it was written: plans are replaced now and then, and told all the time.
///
/// Kept for the first few forms of the plans. Those after them are written for each response, which takes a little longer; to
/// look at what never changes takes no lock.
#[derive(Default)]
pub(crate) struct PolicyLine([OnceLock<Written>; FORMS]);

const FORMS: usize = 4;

struct Written {
    plans: Vec<Plan>,
    line: HeaderValue,
}

impl PolicyLine {
    /// Returns the line for `decision`.
    pub(super) fn of(&self, decision: &Decision) -> Option<HeaderValue> {
        for form in &self.0 {
            match form.get() {
                Some(written) if written.tells(decision) => return Some(written.line.clone()),
                Some(_) => {}
                None => return Self::write(form, decision),
            }
        }
        draft11::policy_line(decision)
    }

    #[cold]
    fn write(form: &OnceLock<Written>, decision: &Decision) -> Option<HeaderValue> {
        let line = draft11::policy_line(decision)?;
        let plans = shown(decision).map(|standing| standing.plan.clone());
        // Whoever was faster has written their own.
        let _ = form.set(Written {
            plans: plans.collect(),
            line: line.clone(),
        });
        Some(line)
    }
}

impl Written {
    fn tells(&self, decision: &Decision) -> bool {
        let mut plans = shown(decision).map(|standing| &standing.plan);
        let alike = |told: &Plan| plans.next() == Some(told);
        self.plans.iter().all(alike) && plans.next().is_none()
    }
}

impl fmt::Debug for PolicyLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = self.0.iter().filter_map(OnceLock::get);
        f.debug_list()
            .entries(written.map(|written| &written.line))
            .finish()
    }
}
