//! [`Walker`]: one key on a server, and what the math says of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use limiter_core::math::{self, Draw, State};
use limiter_core::{Clock, Cost, Key, Limit, Plan, Refund, StoreError, Timestamp, Verdict};
use limiter_fred::FredStore;
use limiter_lua::{Call, Script};
use limiter_redis::RedisStore;
use limiter_store_tests::{Client, PATIENT, Store, layout};
use limiter_testkit::rig::Tools;
use limiter_testkit::server::{RedisServer, Reply};
use limiter_testkit::{ManualClock, ManualRandom};

use crate::limits::units;

/// A store on a server, with clock and chance in the test's hand.
pub(crate) struct Ground<'a> {
    pub(crate) store: Store,
    pub(crate) tools: Tools,
    pub(crate) server: &'a RedisServer,
}

impl<'a> Ground<'a> {
    pub(crate) fn new(client: Client, server: &'a RedisServer) -> Self {
        let tools = Tools {
            address: server.url(),
            layout: layout(),
            clock: ManualClock::new(),
            random: ManualRandom::new(),
        };
        Self {
            store: store(client, tools.clone()),
            tools,
            server,
        }
    }
}

fn store(client: Client, tools: Tools) -> Store {
    let (clock, random) = (Arc::new(tools.clock), Arc::new(tools.random));
    match client {
        Client::Redis => {
            let endpoint = tools.address.parse::<limiter_redis::Endpoint>();
            let store = RedisStore::builder(endpoint.expect("an address"))
                .with_layout(tools.layout)
                .with_deadline(PATIENT)
                .with_connect_timeout(PATIENT)
                .with_clock(clock)
                .with_random(random);
            Arc::new(store.build().expect("a store"))
        }
        Client::Fred => {
            let endpoint = tools.address.parse::<limiter_fred::Endpoint>();
            let store = FredStore::builder(endpoint.expect("an address"))
                .with_layout(tools.layout)
                .with_deadline(PATIENT)
                .with_connect_timeout(PATIENT)
                .with_clock(clock)
                .with_random(random);
            Arc::new(store.build().expect("a store"))
        }
    }
}

/// One key on a server, and what the math says of it.
pub(crate) struct Walker {
    key: Key,
    plans: Vec<Plan>,
    states: Vec<Option<State>>,
    last: Option<Verdict>,
    /// What was charged last, the newest at the end.
    charges: VecDeque<Refund>,
}

/// What is asked next.
#[derive(Clone)]
pub(crate) struct Step {
    op: Op,
    cost: Cost,
}

#[derive(Clone)]
enum Op {
    Acquire,
    Peek,
    Refund(Refund),
}

/// How many of the last charges can be given back.
const CHARGES: usize = 8;

impl Walker {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            key: Key::new(name).expect("a key"),
            plans: Vec::new(),
            states: Vec::new(),
            last: None,
            charges: VecDeque::new(),
        }
    }

    /// Changes the plan of that number, or adds it if it is the next.
    pub(crate) fn set_plan(&mut self, nth: usize, limit: Limit, shadow: bool) {
        let plan = Plan::new(format!("plan-{nth}"), limit).expect("a plan");
        let plan = if shadow { plan.in_shadow() } else { plan };
        if nth == self.plans.len() {
            self.plans.push(plan);
            self.states.push(None);
        } else {
            self.plans[nth] = plan;
        }
    }

    /// Takes over the plans of another walker, of which there are as many.
    pub(crate) fn take_plans_of(&mut self, other: &Self) {
        self.plans.clone_from(&other.plans);
    }

    /// Moves the clock to a moment that means something to this key.
    pub(crate) fn move_clock(&self, clock: &ManualClock, rng: &mut Rng) {
        let plan = self
            .last
            .as_ref()
            .map(|last| last.plans[rng.usize(0..last.plans.len())]);
        let window = self.plans[rng.usize(0..self.plans.len())].limit().window();
        let micro = Duration::from_micros(1);
        let wait = match rng.u8(0..12) {
            0..=3 => Duration::ZERO,
            4 => micro,
            5 => self.last.as_ref().map_or(micro, |last| last.retry_after),
            6 => self
                .last
                .as_ref()
                .map_or(micro, |last| last.retry_after.saturating_sub(micro)),
            7 => plan.map_or(micro, |plan| plan.reset_after),
            8 => return clock.step_back(window / rng.u32(1..100)),
            _ => window.mul_f64(rng.f64() / f64::from(rng.u32(1..50))),
        };
        // Far from the end of time, whatever the plans.
        let wait = wait.min(Duration::from_secs(366 * 24 * 3600) / 100);
        clock.advance(Duration::from_micros(
            wait.as_micros().try_into().expect("short"),
        ));
    }

    pub(crate) fn next(&self, rng: &mut Rng) -> Step {
        let cost = self.cost(rng);
        let op = match rng.u8(0..10) {
            0 => Op::Peek,
            1 | 2 => self.refund(cost, rng).map_or(Op::Acquire, Op::Refund),
            _ => Op::Acquire,
        };
        Step { op, cost }
    }

    /// Returns the refund of at most `cost` of one of the last charges.
    fn refund(&self, cost: Cost, rng: &mut Rng) -> Option<Refund> {
        let nth = rng.usize(0..self.charges.len().max(1));
        let charge = self.charges.get(nth)?.clone();
        let given_back = charge.given_back;
        let left = charge.charged.get() - given_back;
        let units = match rng.u8(0..3) {
            0 => left,
            _ => left.min(cost.get()),
        };
        Some(charge.part(given_back, Cost::new(units).ok()?))
    }

    fn cost(&self, rng: &mut Rng) -> Cost {
        let most = self
            .plans
            .iter()
            .map(|plan| plan.limit().max_cost())
            .min()
            .expect("a plan");
        let remaining = self
            .last
            .as_ref()
            .and_then(|last| last.plans.iter().map(|plan| plan.remaining).min());
        let cost = match rng.u8(0..4) {
            0 => 1,
            1 => remaining.unwrap_or(1),
            2 => remaining.unwrap_or(1).saturating_add(1),
            _ => units(rng, most.into()),
        };
        Cost::new(cost.clamp(1, most)).expect("not zero")
    }

    /// Returns the script that takes a step, if its state is of the form that is expected.
    pub(crate) fn script(&self, ground: &Ground<'_>, step: &Step) -> Script {
        let (layout, draw) = (&ground.tools.layout, Draw::LOWEST);
        let call = match &step.op {
            Op::Acquire => Call::acquire(layout, &self.key, &self.plans, step.cost, draw),
            Op::Peek => Call::peek(layout, &self.key, &self.plans, step.cost),
            Op::Refund(refund) => Call::refund(layout, &self.key, &self.plans, refund),
        };
        call.expect("a call").script()
    }

    /// Asks the store.
    pub(crate) async fn ask(&self, store: &Store, step: &Step) -> Result<Verdict, StoreError> {
        let (key, plans, cost) = (&self.key, &self.plans, step.cost);
        match &step.op {
            Op::Acquire => store.try_acquire(key, plans, cost).await,
            Op::Peek => store.peek(key, plans, cost).await,
            Op::Refund(refund) => store.refund(key, plans, refund).await,
        }
    }

    /// Compares what the store `said` with what the math says, and what the server holds with what it should.
    pub(crate) fn compare(
        &mut self,
        ground: &Ground<'_>,
        step: &Step,
        now: Timestamp,
        said: Result<Verdict, StoreError>,
    ) {
        let draw = ground.tools.random.draw();
        let (plans, states, cost) = (&self.plans, &mut self.states, step.cost);
        let expected = match &step.op {
            Op::Acquire => math::decide(plans, states, now, cost, draw),
            Op::Peek => math::peek(plans, states, now, cost),
            Op::Refund(refund) => math::refund(plans, states, now, refund),
        };
        let said = said.expect("an answer");
        assert_eq!(said, expected, "{cost} under {:?} at {now:?}", self.plans);
        self.note(step, &said);
        self.last = Some(said);
        self.compare_states(ground);
    }

    /// Keeps what was charged, and what of it was given back.
    fn note(&mut self, step: &Step, said: &Verdict) {
        match &step.op {
            Op::Acquire if said.admitted => {
                self.charges.push_back(Refund::of(said, step.cost));
                if self.charges.len() > CHARGES {
                    self.charges.pop_front();
                }
            }
            Op::Refund(refund) => {
                let is_same = |charge: &&mut Refund| {
                    charge.charged_at == refund.charged_at
                        && charge.charged == refund.charged
                        && charge.given_back == refund.given_back
                };
                if let Some(charge) = self.charges.iter_mut().find(is_same) {
                    charge.given_back += refund.units.get();
                }
            }
            _ => {}
        }
    }

    /// Checks that the server holds what the math says, and that the key has a TTL if it is there at all.
    fn compare_states(&self, ground: &Ground<'_>) {
        let name = ground.tools.layout.name(&self.key);
        for (plan, state) in self.plans.iter().zip(&self.states) {
            let field = limiter_lua::field(plan.name());
            let stored = ground.server.command(&[&b"HGET"[..], &name, &field]);
            let stored = match stored.expect("HGET") {
                Reply::Bulk(bytes) => Some(limiter_lua::read_state("plan", &bytes).expect("sound")),
                _ => None,
            };
            assert_eq!(stored, *state, "the state of {plan}");
        }
        let ttl = ground.server.command(&[&b"PTTL"[..], &name]);
        assert_ne!(ttl.expect("PTTL").int(), Some(-1), "a key without a TTL");
    }

    /// Spends so much, and compares; returns how many sub-buckets the first plan has then.
    pub(crate) async fn spend(&mut self, ground: &Ground<'_>, cost: Cost) -> usize {
        let op = Op::Acquire;
        let step = Step { op, cost };
        let (now, said) = (
            ground.tools.clock.now(),
            self.ask(&ground.store, &step).await,
        );
        self.compare(ground, &step, now, said);
        match &self.states[0] {
            Some(State::SlidingWindow(log) | State::SuppressingWindow(log)) => {
                log.sub_buckets().len()
            }
            _ => 0,
        }
    }

    /// Moves the clock, asks for the next step, and compares.
    pub(crate) async fn walk(&mut self, ground: &Ground<'_>, rng: &mut Rng) -> Script {
        let clock = &ground.tools.clock;
        self.move_clock(clock, rng);
        ground.tools.random.set(rng.u64(..));
        let step = self.next(rng);
        let script = self.script(ground, &step);
        let (now, said) = (clock.now(), self.ask(&ground.store, &step).await);
        self.compare(ground, &step, now, said);
        script
    }
}
