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

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use limiter_core::math::{self, State};
use limiter_core::{
    Clock, Cost, FixedWindow, Key, Limit, Plan, SlidingWindow, SuppressingWindow, TokenBucket,
    Verdict,
};
use limiter_fred::FredStore;
use limiter_redis::RedisStore;
use limiter_store_tests::{Client, PATIENT, Store};
use limiter_testkit::rig::{ServerRig, Site, Tools};
use limiter_testkit::server::{RedisServer, Reply};
use limiter_testkit::{StoreUnderTest, block_on};

const STEPS: u32 = 10_000;
/// Where what is left to learn is whether another server or another client does the same.
const FEW_STEPS: u32 = 2_000;

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
    store: Store,
    tools: Tools,
    server: &'static RedisServer,
    key: Key,
    plans: Vec<Plan>,
    states: Vec<Option<State>>,
    last: Option<Verdict>,
}

impl Pair {
    fn new(client: Client, site: Site) -> Self {
        match client {
            Client::Redis => Self::of(&ServerRig::new(site, |tools| {
                let endpoint = tools.address.parse::<limiter_redis::Endpoint>();
                let store = RedisStore::builder(endpoint.expect("an address"))
                    .with_layout(tools.layout)
                    .with_deadline(PATIENT)
                    .with_clock(Arc::new(tools.clock))
                    .with_random(Arc::new(tools.random));
                store.build().expect("a store")
            })),
            Client::Fred => Self::of(&ServerRig::new(site, |tools| {
                let endpoint = tools.address.parse::<limiter_fred::Endpoint>();
                let store = FredStore::builder(endpoint.expect("an address"))
                    .with_layout(tools.layout)
                    .with_deadline(PATIENT)
                    .with_clock(Arc::new(tools.clock))
                    .with_random(Arc::new(tools.random));
                store.build().expect("a store")
            })),
        }
    }

    fn of<S>(rig: &ServerRig<S>) -> Self
    where
        ServerRig<S>: StoreUnderTest,
    {
        Self {
            store: rig.store(),
            tools: rig.tools.clone(),
            server: rig.nodes[0],
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
            8 => return self.tools.clock.step_back(window / rng.u32(1..100)),
            _ => window.mul_f64(rng.f64() / f64::from(rng.u32(1..50))),
        };
        // Far from the end of time, whatever the plans.
        let wait = wait.min(Duration::from_secs(366 * 24 * 3600) / 100);
        self.tools.clock.advance(Duration::from_micros(
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
        let (clock, random) = (&self.tools.clock, &self.tools.random);
        random.set(rng.u64(..));
        let (cost, now, draw) = (self.cost(rng), clock.now(), random.draw());
        let (store, key, plans, states) = (&self.store, &self.key, &self.plans, &mut self.states);
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
        let name = self.tools.layout.name(&self.key);
        for (plan, state) in self.plans.iter().zip(&self.states) {
            let field = limiter_lua::field(plan.name());
            let stored = self.server.command(&[&b"HGET"[..], &name, &field]);
            let stored = match stored.expect("HGET") {
                Reply::Bulk(bytes) => Some(limiter_lua::read_state("plan", &bytes).expect("sound")),
                _ => None,
            };
            assert_eq!(stored, *state, "the state of {plan}");
        }
        let ttl = self.server.command(&[&b"PTTL"[..], &name]);
        assert_ne!(ttl.expect("PTTL").int(), Some(-1), "a key without a TTL");
    }
}

/// Walks so many steps under `plans` plans whose limits `make` makes.
fn agrees(client: Client, site: Site, plans: usize, steps: u32, make: fn(&mut Rng) -> Limit) {
    let seed = seed();
    eprintln!("LIMITER_SEED={seed} for {client:?} on {site:?}");
    let mut rng = Rng::with_seed(seed);
    block_on(async {
        let mut pair = Pair::new(client, site);
        for step in 0..steps {
            if step % 500 == 0 {
                pair = Pair::new(client, site);
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

/// Walks every script a little, through both clients.
fn agrees_a_little(site: Site) {
    for client in [Client::Redis, Client::Fred] {
        agrees(client, site, 1, FEW_STEPS, token_bucket);
        agrees(client, site, 4, FEW_STEPS, any_limit);
    }
}

#[test]
fn prop_lua_agrees_with_the_model_on_token_buckets() {
    agrees(Client::Redis, Site::Redis, 1, STEPS, token_bucket);
}

#[test]
fn prop_lua_agrees_with_the_model_on_sliding_windows() {
    agrees(Client::Redis, Site::Redis, 1, STEPS, sliding_window);
}

#[test]
fn prop_lua_agrees_with_the_model_on_suppressing_windows() {
    agrees(Client::Redis, Site::Redis, 1, STEPS, suppressing_window);
}

#[test]
fn prop_lua_agrees_with_the_model_on_fixed_windows() {
    agrees(Client::Redis, Site::Redis, 1, STEPS, fixed_window);
}

#[test]
fn prop_lua_agrees_with_the_model_on_chains() {
    agrees(Client::Redis, Site::Redis, 4, STEPS, any_limit);
}

#[test]
fn prop_lua_agrees_with_the_model_through_fred() {
    agrees(Client::Fred, Site::Redis, 1, FEW_STEPS, token_bucket);
    agrees(Client::Fred, Site::Redis, 4, FEW_STEPS, any_limit);
}

#[test]
fn prop_lua_agrees_with_the_model_on_valkey() {
    agrees(Client::Redis, Site::Valkey, 4, STEPS, any_limit);
    agrees_a_little(Site::Valkey);
}

#[test]
fn prop_lua_agrees_with_the_model_on_redis_6_2() {
    agrees_a_little(Site::Redis62);
}

#[test]
fn prop_lua_agrees_with_the_model_on_redis_8() {
    agrees_a_little(Site::Redis8);
}

#[test]
fn prop_lua_agrees_with_the_model_on_valkey_8() {
    agrees_a_little(Site::Valkey8);
}
