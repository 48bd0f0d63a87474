//! [`Model`]: what every store has to answer, worked out the slow and obvious way.
//!
//! Written from the description of the algorithms and not from the code that it checks: amounts are exact fractions
//! that change with time, every unit that was spent is remembered one by one, nothing is packed and nothing expires.

mod bucket;
mod fixed;
mod kept;
mod window;

use std::collections::BTreeMap;
use std::time::Duration;

use limiter_core::math::{Draw, Suppression};
use limiter_core::{Cost, Key, Limit, Plan, PlanVerdict, Refund, Source, Timestamp, Verdict};

use kept::{Kept, Part};

/// The reference that stores are compared with: all state of all keys, in the plainest form.
///
/// It takes the calls of [`RateLimiterRepository`](limiter_core::RateLimiterRepository), with the time and the draw as
/// arguments, and answers with the whole verdict. Calls must have passed
/// [`check_request`](limiter_core::check_request).
///
/// # Examples
/// ```
/// use limiter_core::math::Draw;
/// use limiter_core::{Cost, Key, Plan, Timestamp};
/// use limiter_testkit::Model;
///
/// let (key, gold) = (Key::new("ada")?, [Plan::new("gold", "1/s")?]);
/// let (mut model, now) = (Model::default(), Timestamp::EPOCH);
/// assert!(model.try_acquire(&key, &gold, Cost::ONE, now, Draw::LOWEST).admitted);
/// let denied = model.try_acquire(&key, &gold, Cost::ONE, now, Draw::LOWEST);
/// assert_eq!(denied.retry_after.as_micros(), 1_000_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Model {
    keys: BTreeMap<Vec<u8>, BTreeMap<String, Kept>>,
}

/// How long a store keeps what is outlived, for a clock that steps back.
const STEP_BACK_MAX: Duration = Duration::from_secs(1);

impl Model {
    /// Spends `cost` under `key` if every enforced plan of `plans` allows it.
    pub fn try_acquire(
        &mut self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
        now: Timestamp,
        draw: Draw,
    ) -> Verdict {
        let mut said = self.ask(key, plans, cost, now, draw);
        let admitted = enforced(plans, &said);
        for (plan, said) in plans.iter().zip(&mut said) {
            let charged = admitted && said.admits;
            let observed = matches!(plan.limit(), Limit::SuppressingWindow(_));
            if charged || observed {
                let before = self.kept(key, plan).cloned();
                let after = Kept::after_spend(before, plan.limit(), micros(now), units(cost));
                said.charged_at = charged.then(|| timestamp(after.counts_as(micros(now))));
                self.keep(key, plan, Some(after));
            }
        }
        self.verdict(key, plans, cost, now, said)
    }

    /// Says what [`try_acquire`](Self::try_acquire) would answer where nothing is left to chance.
    pub fn peek(&self, key: &Key, plans: &[Plan], cost: Cost, now: Timestamp) -> Verdict {
        let said = self.ask(key, plans, cost, now, Draw::LOWEST);
        self.verdict(key, plans, cost, now, said)
    }

    /// Gives units of one charge back under those of `plans` that were charged. Where nothing of it is left, nothing changes.
    pub fn refund(
        &mut self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
        now: Timestamp,
    ) -> Verdict {
        for (plan, charged_at) in plans.iter().zip(&refund.charged_at) {
            let own = self.own(key, plan).cloned();
            let own = own.filter(|kept| kept.runs_out_at() > micros(now));
            if let (Some(kept), Some(charged_at)) = (own, charged_at) {
                let part = Part {
                    charged_at: micros(*charged_at),
                    left: units(refund.charged) - u128::from(refund.given_back),
                    units: units(refund.units),
                };
                self.keep(
                    key,
                    plan,
                    kept.after_refund(plan.limit(), micros(now), part),
                );
            }
        }
        self.peek(key, plans, Cost::ONE, now)
    }

    /// Forgets what `key` spent under each of `plans`.
    pub fn reset(&mut self, key: &Key, plans: &[Plan]) {
        for plan in plans {
            self.keep(key, plan, None);
        }
    }

    /// Forgets what has been as good as unused for longer than a clock may step back: one second.
    pub fn forget_outlived(&mut self, now: Timestamp) {
        let then = micros(now.saturating_sub(STEP_BACK_MAX));
        for plans in self.keys.values_mut() {
            plans.retain(|_, kept| kept.runs_out_at() > then);
        }
        self.keys.retain(|_, plans| !plans.is_empty());
    }

    /// Counts the keys of which anything is kept.
    #[must_use]
    pub fn tracked_keys(&self) -> usize {
        self.keys.len()
    }

    fn ask(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
        now: Timestamp,
        draw: Draw,
    ) -> Vec<PlanVerdict> {
        let ask_plan = |plan: &Plan| {
            let refused = Kept::refused_millionths(
                self.own(key, plan),
                plan.limit(),
                micros(now),
                units(cost),
            );
            let suppresses = matches!(plan.limit(), Limit::SuppressingWindow(_));
            PlanVerdict {
                admits: draw.get() >= refused,
                suppression: Suppression::from_millionths(if suppresses { refused } else { 0 }),
                restarted: self.is_foreign(key, plan, now),
                ..PlanVerdict::default()
            }
        };
        plans.iter().map(ask_plan).collect()
    }

    /// Adds how the plans stand to what they said.
    fn verdict(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
        now: Timestamp,
        said: Vec<PlanVerdict>,
    ) -> Verdict {
        let admitted = enforced(plans, &said);
        let certain_at = |plan: &Plan| {
            Kept::certain_at(self.own(key, plan), plan.limit(), micros(now), units(cost))
        };
        let all_certain_at = plans
            .iter()
            .filter(|plan| plan.is_enforced())
            .map(certain_at)
            .max();
        let then = match all_certain_at {
            Some(moment) if !admitted => moment,
            _ => micros(now),
        };
        let stand = |(plan, said): (&Plan, PlanVerdict)| {
            let (own, limit) = (self.own(key, plan), plan.limit());
            let waits = !admitted || !said.admits;
            PlanVerdict {
                remaining: Kept::free(own, limit, micros(now)),
                reset_after: between(now, own.map_or(0, |kept| kept.unused_from(limit))),
                retry_after: between(now, if waits { certain_at(plan) } else { 0 }),
                free_after_wait: Kept::free(own, limit, then),
                ..said
            }
        };
        Verdict {
            source: Source::Store,
            admitted,
            retry_after: between(now, then),
            plans: plans.iter().zip(said).map(stand).collect(),
        }
    }

    fn kept(&self, key: &Key, plan: &Plan) -> Option<&Kept> {
        self.keys.get(key.as_bytes())?.get(&name(plan))
    }

    /// Returns what is kept, if the plan's present algorithm left it.
    fn own(&self, key: &Key, plan: &Plan) -> Option<&Kept> {
        self.kept(key, plan).filter(|kept| kept.is_of(plan.limit()))
    }

    /// Returns whether another algorithm left what is kept, and it would still count.
    fn is_foreign(&self, key: &Key, plan: &Plan, now: Timestamp) -> bool {
        self.kept(key, plan)
            .is_some_and(|kept| !kept.is_of(plan.limit()) && kept.runs_out_at() > micros(now))
    }

    fn keep(&mut self, key: &Key, plan: &Plan, kept: Option<Kept>) {
        let plans = self.keys.entry(key.as_bytes().to_vec()).or_default();
        match kept {
            Some(kept) => plans.insert(name(plan), kept),
            None => plans.remove(&name(plan)),
        };
        if plans.is_empty() {
            self.keys.remove(key.as_bytes());
        }
    }
}

fn enforced(plans: &[Plan], said: &[PlanVerdict]) -> bool {
    let mut both = plans.iter().zip(said);
    both.all(|(plan, said)| said.admits || !plan.is_enforced())
}

fn name(plan: &Plan) -> String {
    plan.name().as_str().to_ascii_lowercase()
}

fn micros(moment: Timestamp) -> u128 {
    moment.as_micros().into()
}

fn timestamp(moment: u128) -> Timestamp {
    let micros = u64::try_from(moment).unwrap_or(u64::MAX);
    Timestamp::from_micros(micros).unwrap_or(Timestamp::MAX)
}

fn units(cost: Cost) -> u128 {
    cost.get().into()
}

fn between(now: Timestamp, moment: u128) -> Duration {
    let wait = moment.saturating_sub(micros(now));
    Duration::from_micros(u64::try_from(wait).unwrap_or(u64::MAX))
}
