//! What the properties share: one plan or chain under a random history, and where seeds of failures are kept.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what a test is made of may panic"
)]
#![allow(dead_code, reason = "not every file of properties needs all of it")]

use std::time::Duration;

use limiter_core::math::{self, Draw, State};
use limiter_core::{Cost, Limit, Plan, Refund, Timestamp, Verdict};
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

/// Returns the settings of a file of properties; `seeds` is the file that failures are kept in.
pub(crate) fn settings(seeds: &'static str) -> Config {
    Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(seeds))),
        ..Config::default()
    }
}

/// Names the seed file of a file of properties.
macro_rules! seeds {
    ($name:literal) => {
        concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/proptest-regressions/",
            $name,
            ".txt"
        )
    };
}
pub(crate) use seeds;

/// One request of a history: how long after the one before, what it costs, and what is drawn for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    wait: Gap,
    cost: u32,
    bits: u64,
}

#[derive(Clone, Copy, Debug)]
enum Gap {
    Micros(u64),
    /// A part of the window of the first plan.
    Thousandths(u32),
    /// As long as increments of the first plan share a sub-bucket, and this much more, less one microsecond.
    Granularity(u64),
}

/// One year: the longest history ends before the last moment there is.
const GAP_MAX_US: u64 = 366 * 86_400_000_000;

/// Returns histories of requests that come at one instant, close together or a part of a window apart.
pub(crate) fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let wait = prop_oneof![
        3 => Just(Gap::Micros(0)),
        2 => (1..=40_u64).prop_map(Gap::Micros),
        4 => (0..=400_u32).prop_map(Gap::Thousandths),
        1 => (400..=1_500_u32).prop_map(Gap::Thousandths),
        2 => (0..=2_u64).prop_map(Gap::Granularity),
    ];
    let cost = prop_oneof![6 => 1..=2_u32, 2 => 3..=12_u32, 1 => 1..=1_000_000_000_u32];
    let bits = prop_oneof![Just(0), Just(u64::MAX), any::<u64>()];
    let ask = (wait, cost, bits).prop_map(|(wait, cost, bits)| Ask { wait, cost, bits });
    prop::collection::vec(ask, 1..=50)
}

/// Chains and their states, with a clock that is turned by hand.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    pub(crate) plans: Vec<Plan>,
    pub(crate) states: Vec<Option<State>>,
    pub(crate) now: Timestamp,
    /// The time that has really passed, whatever the clock shows.
    pub(crate) passed_us: u64,
}

/// A request that was admitted: after how many microseconds, at what cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    pub(crate) at_us: u64,
    pub(crate) cost: u64,
}

impl Desk {
    pub(crate) fn new(plans: Vec<Plan>) -> Self {
        Self {
            states: vec![None; plans.len()],
            plans,
            now: noon(),
            passed_us: 0,
        }
    }

    pub(crate) fn of(limit: Limit) -> Self {
        Self::new(vec![plan("only", limit)])
    }

    pub(crate) fn limit(&self) -> &Limit {
        self.plans[0].limit()
    }

    pub(crate) fn advance(&mut self, by_us: u64) {
        self.now = self.now.saturating_add(Duration::from_micros(by_us));
        self.passed_us += by_us;
    }

    /// Waits and asks. The cost is cut to what the plans can admit.
    pub(crate) fn ask(&mut self, ask: Ask) -> (Cost, Verdict) {
        self.advance(self.gap_us(ask));
        let cost = self.cost_of(ask);
        (cost, self.acquire(cost, Draw::from_random(ask.bits)))
    }

    pub(crate) fn gap_us(&self, ask: Ask) -> u64 {
        match ask.wait {
            Gap::Micros(us) => us,
            Gap::Granularity(more_us) => granularity_us(self.limit()) + more_us - 1,
            Gap::Thousandths(part) => {
                let window = self.limit().window().as_micros();
                let gap = u64::try_from(window * u128::from(part) / 1_000).unwrap();
                gap.min(GAP_MAX_US)
            }
        }
    }

    pub(crate) fn cost_of(&self, ask: Ask) -> Cost {
        let most = self.plans.iter().map(|plan| plan.limit().max_cost()).min();
        cost(ask.cost.min(most.unwrap()))
    }

    pub(crate) fn acquire(&mut self, cost: Cost, draw: Draw) -> Verdict {
        math::decide(&self.plans, &mut self.states, self.now, cost, draw)
    }

    pub(crate) fn peek(&self, cost: Cost) -> Verdict {
        math::peek(&self.plans, &self.states, self.now, cost)
    }

    pub(crate) fn refund(&mut self, refund: &Refund) -> Verdict {
        math::refund(&self.plans, &mut self.states, self.now, refund)
    }

    /// Returns the same desk `later`.
    pub(crate) fn after(&self, later: Duration) -> Self {
        let mut desk = self.clone();
        desk.advance(u64::try_from(later.as_micros()).unwrap());
        desk
    }

    /// Asks for everything and returns what was admitted.
    pub(crate) fn admissions(&mut self, asks: &[Ask]) -> Vec<Admission> {
        let mut admissions = Vec::new();
        for ask in asks {
            let (cost, verdict) = self.ask(*ask);
            if verdict.admitted {
                admissions.push(Admission {
                    at_us: self.passed_us,
                    cost: cost.get().into(),
                });
            }
        }
        admissions
    }
}

/// Returns how long increments share a sub-bucket; one microsecond where there are none.
pub(crate) fn granularity_us(limit: &Limit) -> u64 {
    match limit {
        Limit::SlidingWindow(rule) => rule.granularity_us(),
        Limit::SuppressingWindow(rule) => rule.soft().granularity_us(),
        _ => 1,
    }
}

/// Returns what was admitted in every stretch from one admission to a later one: its length, and the sum.
pub(crate) fn stretches(admissions: &[Admission]) -> impl Iterator<Item = (u64, u64)> {
    (0..admissions.len()).flat_map(move |first| {
        let from = &admissions[first..];
        let mut sum = 0;
        from.iter().map(move |admission| {
            sum += admission.cost;
            (admission.at_us - from[0].at_us, sum)
        })
    })
}

pub(crate) fn noon() -> Timestamp {
    Timestamp::from_micros(1_767_268_800_000_000).unwrap()
}

pub(crate) fn plan(name: &str, limit: Limit) -> Plan {
    Plan::new(name, limit).unwrap()
}

pub(crate) fn cost(units: u32) -> Cost {
    Cost::new(units).unwrap()
}

/// Returns chains of one to four plans of any algorithms, some in shadow.
pub(crate) fn chains() -> impl Strategy<Value = Vec<Plan>> {
    let link = (
        limiter_testkit::state_machine::limits(),
        prop::bool::weighted(0.2),
    );
    prop::collection::vec(link, 1..=4).prop_map(|links| {
        let named = links.into_iter().enumerate().map(|(nth, (limit, shadow))| {
            let plan = plan(&format!("plan-{nth}"), limit);
            if shadow { plan.in_shadow() } else { plan }
        });
        named.collect()
    })
}
