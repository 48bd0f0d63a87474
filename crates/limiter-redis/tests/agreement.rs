//! The scripts decide as the math does: random steps on a real server, each compared in its verdict and in the state that
//! it leaves behind.
//!
//! Every step takes a random moment (standing still, going on, going back, up to the microsecond at which the last denial
//! ends), a random call and a random cost; now and then a plan gets other numbers or another algorithm. A failure names the
//! seed; `LIMITER_SEED` replays it.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "this is a test"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use limiter_core::math::{self, State};
use limiter_core::{
    Clock, Cost, FixedWindow, Key, Limit, Plan, RateLimiterRepository, SlidingWindow,
    SuppressingWindow, TokenBucket, Verdict,
};
use limiter_testkit::server::Reply;
use limiter_testkit::{ManualClock, ManualRandom, StoreUnderTest, block_on};
use support::{Rig, Site, on};

const STEPS: u32 = 10_000;

fn seed() -> u64 {
    std::env::var("LIMITER_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..))
}

/// A number of about equally many digits each time.
fn spread(rng: &mut Rng, most: u64) -> u64 {
    let bits = rng.u32(0..=63 - most.leading_zeros());
    rng.u64(1..=most.min((2 << bits) - 1))
}

fn units(rng: &mut Rng, most: u64) -> u32 {
    u32::try_from(spread(rng, most)).expect("few units")
}

fn period(rng: &mut Rng) -> Duration {
    let year_us = 366 * 24 * 3600 * 1_000_000;
    match rng.u8(0..4) {
        0 => Duration::from_millis(rng.u64(1..1000)),
        1 => Duration::from_secs(rng.u64(1..100)),
        _ => Duration::from_micros(spread(rng, year_us).max(1000)),
    }
}

fn token_bucket(rng: &mut Rng) -> Limit {
    loop {
        let refill = match rng.u8(0..3) {
            0 => 1,
            1 => units(rng, 100),
            _ => units(rng, 1_000_000_000),
        };
        let asked = TokenBucket::new(refill, period(rng)).with_capacity(units(rng, 1_000_000_000));
        if let Ok(limit) = Limit::try_from(asked) {
            return limit;
        }
    }
}

fn sliding_window(rng: &mut Rng) -> Limit {
    let window = period(rng);
    let granularity = window / rng.u32(1..50);
    let granularity = Duration::from_micros(granularity.as_micros().try_into().expect("short"));
    SlidingWindow::new(units(rng, 1000), window)
        .with_granularity(granularity)
        .try_into()
        .expect("a sound window")
}

fn suppressing_window(rng: &mut Rng) -> Limit {
    let soft = units(rng, 1000);
    SuppressingWindow::new(soft, period(rng))
        .with_hard_limit(soft + units(rng, 1000))
        .try_into()
        .expect("a sound window")
}

fn fixed_window(rng: &mut Rng) -> Limit {
    FixedWindow::new(units(rng, 1000), period(rng))
        .try_into()
        .expect("a sound window")
}

fn any_limit(rng: &mut Rng) -> Limit {
    let make = [
        token_bucket,
        sliding_window,
        suppressing_window,
        fixed_window,
    ];
    make[rng.usize(0..4)](rng)
}

/// One key on a server, and what the math says of it.
struct Pair {
    rig: Rig,
    key: Key,
    plans: Vec<Plan>,
    states: Vec<Option<State>>,
    clock: ManualClock,
    random: ManualRandom,
    last: Option<Verdict>,
}

impl Pair {
    fn new(site: Site) -> Self {
        let rig = on(site);
        Self {
            clock: rig.clock(),
            random: rig.random(),
            rig,
            key: Key::new("key").expect("a key"),
            plans: Vec::new(),
            states: Vec::new(),
            last: None,
        }
    }

    fn set_plan(&mut self, nth: usize, limit: Limit, shadow: bool) {
        let plan = Plan::new(format!("plan-{nth}"), limit).expect("a plan");
        let plan = if shadow { plan.in_shadow() } else { plan };
        if nth == self.plans.len() {
            self.plans.push(plan);
            self.states.push(None);
        } else {
            self.plans[nth] = plan;
        }
    }

    fn move_clock(&self, rng: &mut Rng) {
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
            8 => return self.clock.step_back(window / rng.u32(1..100)),
            _ => window.mul_f64(rng.f64() / f64::from(rng.u32(1..50))),
        };
        // Far from the end of time, whatever the plans.
        let wait = wait.min(Duration::from_secs(366 * 24 * 3600) / 100);
        self.clock.advance(Duration::from_micros(
            wait.as_micros().try_into().expect("short"),
        ));
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

    async fn step(&mut self, rng: &mut Rng) {
        self.move_clock(rng);
        self.random.set(rng.u64(..));
        let (cost, now, draw) = (self.cost(rng), self.clock.now(), self.random.draw());
        let (store, key, plans, states) =
            (&self.rig.store, &self.key, &self.plans, &mut self.states);
        let (said, expected) = match rng.u8(0..10) {
            0 => (
                store.peek(key, plans, cost).await,
                math::peek(plans, states, now, cost),
            ),
            1 | 2 => (
                store.refund(key, plans, cost).await,
                math::refund(plans, states, now, cost),
            ),
            _ => (
                store.try_acquire(key, plans, cost).await,
                math::decide(plans, states, now, cost, draw),
            ),
        };
        let said = said.expect("an answer");
        assert_eq!(said, expected, "{cost} under {:?} at {now:?}", self.plans);
        self.last = Some(said);
        self.compare_states();
    }

    /// Checks that the server holds what the math says, and that the key has a TTL if it is there at all.
    fn compare_states(&self) {
        let name = self.rig.tools.layout.name(&self.key);
        for (plan, state) in self.plans.iter().zip(&self.states) {
            let field = limiter_lua::field(plan.name());
            let stored = self.rig.nodes[0].command(&[&b"HGET"[..], &name, &field]);
            let stored = match stored.expect("HGET") {
                Reply::Bulk(bytes) => Some(limiter_lua::read_state("plan", &bytes).expect("sound")),
                _ => None,
            };
            assert_eq!(stored, *state, "the state of {plan}");
        }
        let ttl = self.rig.nodes[0]
            .command(&[&b"PTTL"[..], &name])
            .expect("PTTL");
        assert_ne!(ttl.int(), Some(-1), "a key without a TTL");
    }
}

/// Walks `STEPS` steps under `plans` plans whose limits `make` makes.
fn agrees(site: Site, plans: usize, steps: u32, make: fn(&mut Rng) -> Limit) {
    let seed = seed();
    eprintln!("LIMITER_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    block_on(async {
        let mut pair = Pair::new(site);
        for step in 0..steps {
            if step % 500 == 0 {
                pair = Pair::new(site);
                for nth in 0..plans {
                    let shadow = plans > 1 && rng.u8(0..5) == 0;
                    pair.set_plan(nth, make(&mut rng), shadow);
                }
            }
            if rng.u8(0..50) == 0 {
                let nth = rng.usize(0..plans);
                let shadow = plans > 1 && rng.u8(0..5) == 0;
                let limit = if rng.u8(0..10) == 0 {
                    any_limit(&mut rng)
                } else {
                    make(&mut rng)
                };
                pair.set_plan(nth, limit, shadow);
            }
            pair.step(&mut rng).await;
        }
    });
}

#[test]
fn prop_lua_agrees_with_the_model_on_token_buckets() {
    agrees(Site::Redis, 1, STEPS, token_bucket);
}

#[test]
fn prop_lua_agrees_with_the_model_on_sliding_windows() {
    agrees(Site::Redis, 1, STEPS, sliding_window);
}

#[test]
fn prop_lua_agrees_with_the_model_on_suppressing_windows() {
    agrees(Site::Redis, 1, STEPS, suppressing_window);
}

#[test]
fn prop_lua_agrees_with_the_model_on_fixed_windows() {
    agrees(Site::Redis, 1, STEPS, fixed_window);
}

#[test]
fn prop_lua_agrees_with_the_model_on_chains() {
    agrees(Site::Redis, 4, STEPS, any_limit);
}

#[test]
fn prop_lua_agrees_with_the_model_on_chains_of_valkey() {
    agrees(Site::Valkey, 4, STEPS, any_limit);
}

/// The store decides alike however many handles there are to one state.
#[test]
fn handles_share_one_state() {
    block_on(async {
        let rig = on(Site::Redis);
        let other: Arc<dyn RateLimiterRepository> = rig.store();
        let plans = [Plan::new("gold", "1/s burst 2").expect("a plan")];
        let key = Key::new("key").expect("a key");
        for remaining in [1, 0] {
            let said = other
                .try_acquire(&key, &plans, Cost::ONE)
                .await
                .expect("an answer");
            assert_eq!(said.plans[0].remaining, remaining);
        }
    });
}
