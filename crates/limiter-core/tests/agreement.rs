//! The math decides like the model, decision by decision.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what a test is made of may panic"
)]

mod support;

use std::time::Duration;

use limiter_core::math::{self, Draw, State};
use limiter_core::{Cost, Key, Limit, Plan, Refund, Timestamp};
use limiter_testkit::Model;
use limiter_testkit::state_machine::{limits, token_buckets};
use proptest::prelude::*;
use support::{noon, plan, seeds, settings};

/// What happens next.
#[derive(Clone, Debug)]
enum Event {
    Acquire {
        cost: u32,
        bits: u64,
    },
    Peek {
        cost: u32,
    },
    /// Of an earlier charge: the newest, the one before it, ...
    Refund {
        units: u32,
        back: usize,
    },
    Reset,
    Wait {
        thousandths: u32,
    },
    WaitMicros(u64),
    /// As long as the last answer said, and a microsecond less or more.
    WaitAsTold {
        off_by: i8,
    },
    /// As long as increments of the first plan share a sub-bucket, and this much more, less one microsecond.
    WaitGranularity {
        more_us: u64,
    },
    StepBack(u64),
    Change {
        nth: usize,
        limit: Limit,
    },
}

/// What happens; of 34 or so events, as many as said change a plan.
fn events(changes: u32, limits: impl Strategy<Value = Limit>) -> impl Strategy<Value = Vec<Event>> {
    let cost = || prop_oneof![6 => 1..=3_u32, 3 => 4..=12_u32, 1 => 1..=1_000_000_000_u32];
    let bits = prop_oneof![Just(0), Just(u64::MAX), any::<u64>()];
    let event = prop_oneof![
        14 => (cost(), bits).prop_map(|(cost, bits)| Event::Acquire { cost, bits }),
        2 => cost().prop_map(|cost| Event::Peek { cost }),
        3 => (cost(), 0..6_usize).prop_map(|(units, back)| Event::Refund { units, back }),
        1 => Just(Event::Reset),
        4 => (0..=1_100_u32).prop_map(|thousandths| Event::Wait { thousandths }),
        3 => prop_oneof![1..=50_u64, 1..=3_000_000_u64].prop_map(Event::WaitMicros),
        3 => (-1..=1_i8).prop_map(|off_by| Event::WaitAsTold { off_by }),
        2 => (0..=2_u64).prop_map(|more_us| Event::WaitGranularity { more_us }),
        2 => prop_oneof![1..=50_u64, 1..=90_000_000_u64].prop_map(Event::StepBack),
        changes => (0..4_usize, limits).prop_map(|(nth, limit)| Event::Change { nth, limit }),
    ];
    prop::collection::vec(event, 1..=60)
}

proptest! {
    #![proptest_config(settings(seeds!("agreement")))]

    #[test]
    fn prop_decide_agrees_with_the_model(
        plans in support::chains(),
        events in events(2, limits()),
    ) {
        let mut both = Both::new(plans);
        for event in events {
            both.happen(event)?;
        }
    }

    #[test]
    fn prop_decide_agrees_with_the_model_on_buckets_in_turn(
        limit in token_buckets(),
        events in events(15, token_buckets()),
    ) {
        let mut both = Both::new(vec![plan("only", limit)]);
        for event in events {
            both.happen(event)?;
        }
    }

    /// Of a few windows each lasts a few of the next one, and may hold more than one that holds it counts.
    #[test]
    fn prop_decide_agrees_with_the_model_on_fixed_windows_in_turn(
        limit in fixed_windows_of_a_few(),
        events in events(15, fixed_windows_of_a_few()),
    ) {
        let mut both = Both::new(vec![plan("only", limit)]);
        for event in events {
            both.happen(event)?;
        }
    }
}

fn fixed_windows_of_a_few() -> impl Strategy<Value = Limit> {
    let limits = prop_oneof![4 => 1..=12_u32, 1 => Just(1_000_000_000)];
    (limits, 0..6_u32).prop_map(|(limit, nth)| {
        let text = format!("fixed {limit}/{}ms", 5_u32.pow(nth));
        text.parse().unwrap()
    })
}

/// The math and the model side by side.
struct Both {
    plans: Vec<Plan>,
    states: Vec<Option<State>>,
    model: Model,
    key: Key,
    now: Timestamp,
    told: Duration,
    charges: Vec<Refund>,
}

impl Both {
    fn new(plans: Vec<Plan>) -> Self {
        Self {
            states: vec![None; plans.len()],
            plans,
            model: Model::default(),
            key: Key::new("key").unwrap(),
            now: noon(),
            told: Duration::ZERO,
            charges: Vec::new(),
        }
    }

    fn happen(&mut self, event: Event) -> Result<(), TestCaseError> {
        let (key, now) = (&self.key, self.now);
        let (said, expected) = match event {
            Event::Acquire { cost, bits } => {
                let (cost, draw) = (self.cost(cost), Draw::from_random(bits));
                let said = math::decide(&self.plans, &mut self.states, now, cost, draw);
                if said.admitted {
                    self.charges.push(Refund::of(&said, cost));
                }
                (
                    said,
                    self.model.try_acquire(key, &self.plans, cost, now, draw),
                )
            }
            Event::Peek { cost } => {
                let cost = self.cost(cost);
                let said = math::peek(&self.plans, &self.states, now, cost);
                (said, self.model.peek(key, &self.plans, cost, now))
            }
            Event::Refund { units, back } => {
                let Some(refund) = self.part_of_a_charge(units, back) else {
                    return Ok(());
                };
                let said = math::refund(&self.plans, &mut self.states, now, &refund);
                (
                    said,
                    self.model.refund(&self.key, &self.plans, &refund, now),
                )
            }
            Event::Reset => {
                self.states.fill(None);
                self.model.reset(key, &self.plans);
                return Ok(());
            }
            other => {
                self.turn(other);
                return Ok(());
            }
        };
        self.told = said.retry_after;
        prop_assert_eq!(said, expected, "under {:?}", self.plans);
        Ok(())
    }

    /// Returns the refund of at most `units` more of the charge so far back, if anything of it is left.
    fn part_of_a_charge(&mut self, units: u32, back: usize) -> Option<Refund> {
        let charge = self.charges.iter_mut().rev().nth(back)?;
        let given_back = charge.given_back;
        let units = Cost::new(units.min(charge.charged.get() - given_back)).ok()?;
        charge.given_back += units.get();
        Some(charge.clone().part(given_back, units))
    }

    fn turn(&mut self, event: Event) {
        let ahead = match event {
            Event::Wait { thousandths } => self.plans[0].limit().window() / 1_000 * thousandths,
            Event::WaitMicros(micros) => Duration::from_micros(micros),
            Event::WaitAsTold { off_by: -1 } => self.told.saturating_sub(Duration::from_micros(1)),
            Event::WaitAsTold { off_by: 0 } => self.told,
            Event::WaitAsTold { .. } => self.told + Duration::from_micros(1),
            Event::WaitGranularity { more_us } => {
                let granularity_us = support::granularity_us(self.plans[0].limit());
                Duration::from_micros(granularity_us + more_us - 1)
            }
            Event::StepBack(micros) => {
                self.now = self.now.saturating_sub(Duration::from_micros(micros));
                return;
            }
            Event::Change { nth, limit } => {
                let nth = nth % self.plans.len();
                let changed = plan(self.plans[nth].name().as_str(), limit);
                let enforced = self.plans[nth].is_enforced();
                self.plans[nth] = if enforced {
                    changed
                } else {
                    changed.in_shadow()
                };
                return;
            }
            _ => return,
        };
        let whole = Duration::from_micros(u64::try_from(ahead.as_micros()).unwrap());
        self.now = self
            .now
            .saturating_add(whole.min(Duration::from_secs(366 * 86_400)));
    }

    fn cost(&self, asked: u32) -> Cost {
        let most = self.plans.iter().map(|plan| plan.limit().max_cost()).min();
        support::cost(asked.min(most.unwrap()))
    }
}

/// A window that gets shorter each time when it is full keeps more sub-buckets than one plan alone ever makes: so many, and no more.
#[test]
fn a_window_keeps_257_sub_buckets_at_most_however_its_plan_changes() {
    for units in ["sliding 1000000/", "suppressing 1/"] {
        let mut both = Both::new(vec![plan("only", "1/s".parse().unwrap())]);
        let mut most = 0;
        for (window, every) in [("256s", 1_000), ("128s", 500), ("64s", 250), ("32s", 125)] {
            let limit: Limit = format!("{units}{window} every {every}ms").parse().unwrap();
            both.happen(Event::Change { nth: 0, limit }).unwrap();
            for _ in 0..250 {
                both.happen(Event::Acquire { cost: 1, bits: 0 }).unwrap();
                both.happen(Event::Peek { cost: 1 }).unwrap();
                both.happen(Event::WaitMicros(every * 1_000)).unwrap();
                let kept = match &both.states[0] {
                    Some(State::SlidingWindow(log) | State::SuppressingWindow(log)) => {
                        log.sub_buckets().len()
                    }
                    _ => 0,
                };
                most = most.max(kept);
            }
        }
        assert_eq!(most, 257);
    }
}
