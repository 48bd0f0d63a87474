//! The scripts decide as the math does: random steps on a real server, each compared in its verdict and in the state that
//! it leaves behind.
//!
//! Every step takes a random moment (standing still, going on, going back, up to the microsecond at which the last denial
//! ends), a random call and a random cost; now and then a plan gets other numbers or another algorithm. A failure names the
//! seed; `LIMITER_SEED` replays it.
#![cfg(test)]

mod limits;
mod walker;

use std::time::Duration;

use fastrand::Rng;
use futures_util::future::join_all;
use limiter_core::{Clock, Cost, Limit, SlidingWindow, SuppressingWindow};
use limiter_lua::Script;
use limiter_store_tests::Client;
use limiter_testkit::block_on;
use limiter_testkit::rig::Site;
use limiter_testkit::server::{Flavour, RedisServer};

use limits::{
    any_limit, bucket_far_from_others, compact_bucket, fixed_window, fixed_window_of_a_few,
    sliding_window, suppressing_window, token_bucket,
};
use walker::{Ground, Walker};

const STEPS: u32 = 10_000;
/// Where what is left to learn is whether another server or another client does the same.
const FEW_STEPS: u32 = 2_000;
/// How many steps a key goes before another one takes its place.
const STEPS_OF_A_KEY: u32 = 500;
/// How many keys are asked for at once.
const KEYS: u32 = 32;

fn seed() -> u64 {
    std::env::var("LIMITER_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..))
}

/// The plans of a walk.
#[derive(Clone, Copy)]
struct Plans {
    count: usize,
    make: fn(&mut Rng) -> Limit,
    /// Whether some of them only count.
    with_shadows: bool,
    /// A plan gets other numbers with one step of so many.
    steps_of_a_plan: u8,
}

impl Plans {
    const fn one(make: fn(&mut Rng) -> Limit) -> Self {
        Self {
            count: 1,
            make,
            with_shadows: false,
            steps_of_a_plan: 50,
        }
    }

    /// Any four, in a chain.
    const CHAIN: Self = Self {
        count: 4,
        make: any_limit,
        with_shadows: true,
        steps_of_a_plan: 50,
    };

    /// So many of those that have a script of their own.
    const fn compact_buckets(count: usize) -> Self {
        Self {
            count,
            make: compact_bucket,
            with_shadows: false,
            steps_of_a_plan: 50,
        }
    }

    /// The same, whose numbers change with every other step.
    const fn in_turn(self) -> Self {
        Self {
            steps_of_a_plan: 2,
            ..self
        }
    }

    fn shadow(self, rng: &mut Rng) -> bool {
        self.with_shadows && rng.u8(0..5) == 0
    }

    fn walker(self, name: &str, rng: &mut Rng) -> Walker {
        let mut walker = Walker::new(name);
        for nth in 0..self.count {
            walker.set_plan(nth, (self.make)(rng), self.shadow(rng));
        }
        walker
    }

    /// Changes a plan now and then, to other numbers or another algorithm.
    fn change(self, walker: &mut Walker, rng: &mut Rng) {
        if rng.u8(0..self.steps_of_a_plan) == 0 {
            let nth = rng.usize(0..self.count);
            let shadow = self.shadow(rng);
            let limit = if rng.u8(0..10) == 0 {
                any_limit(rng)
            } else {
                (self.make)(rng)
            };
            walker.set_plan(nth, limit, shadow);
        }
    }
}

/// Walks so many steps, one after another; returns which script was asked for each.
fn agrees(client: Client, site: Site, plans: Plans, steps: u32) -> Vec<Script> {
    let seed = seed();
    eprintln!("LIMITER_SEED={seed} for {client:?} on {site:?}");
    let mut rng = Rng::with_seed(seed);
    let nodes = site.nodes();
    block_on(async {
        let mut scripts = Vec::new();
        for _ in 0..steps / STEPS_OF_A_KEY {
            let ground = Ground::new(client, nodes[0]);
            let mut walker = plans.walker("key", &mut rng);
            for _ in 0..STEPS_OF_A_KEY {
                plans.change(&mut walker, &mut rng);
                scripts.push(walker.walk(&ground, &mut rng).await);
            }
        }
        scripts
    })
}

/// Walks with many keys, a step of each at the same time, so that calls are gathered: each key's own history agrees.
fn agrees_when_gathered(client: Client, flavour: Flavour, plans: Plans, steps: u32) {
    let seed = seed();
    eprintln!("LIMITER_SEED={seed} for {client:?} on {flavour:?}, gathered");
    let mut rng = Rng::with_seed(seed);
    let server = RedisServer::start(flavour).expect("a server starts");
    let (mut reads, mut calls) = (0, 0);
    for _ in 0..steps.div_ceil(STEPS_OF_A_KEY * KEYS) {
        let ground = Ground::new(client, &server);
        let names = (0..KEYS).map(|nth| format!("key {nth}"));
        let mut walkers: Vec<_> = names.map(|name| plans.walker(&name, &mut rng)).collect();
        block_on(async {
            for _ in 0..(steps / KEYS).min(STEPS_OF_A_KEY) {
                reads += walk_together(&ground, &mut walkers, plans, &mut rng).await;
                calls += u64::from(KEYS);
            }
        });
    }
    assert!(reads * 2 < calls, "{reads} reads for {calls} calls");
}

/// Takes a step of each at the same time; returns how often the server has read for all of them.
async fn walk_together(
    ground: &Ground<'_>,
    walkers: &mut [Walker],
    plans: Plans,
    rng: &mut Rng,
) -> u64 {
    let clock = &ground.tools.clock;
    walkers[rng.usize(0..walkers.len())].move_clock(clock, rng);
    ground.tools.random.set(rng.u64(..));
    let mut steps = Vec::new();
    for walker in walkers.iter_mut() {
        plans.change(walker, rng);
        steps.push(walker.next(rng));
    }
    // About half of them ask what the first does, each with a history of its own: what a script prepares serves all of these.
    let (first, others) = walkers.split_first_mut().expect("several");
    for (nth, walker) in (1..).zip(others) {
        if rng.bool() {
            walker.take_plans_of(first);
            steps[nth] = steps[0].clone();
        }
    }
    let (now, before) = (clock.now(), reads(ground.server));
    let asked = walkers.iter().zip(&steps);
    let said = join_all(asked.map(|(walker, step)| walker.ask(&ground.store, step))).await;
    let reads = reads(ground.server) - before;
    for ((walker, step), said) in walkers.iter_mut().zip(steps).zip(said) {
        walker.compare(ground, &step, now, said);
    }
    reads
}

fn reads(server: &RedisServer) -> u64 {
    let stats = server.info("stats").expect("stats");
    stats["total_reads_processed"].parse().expect("a number")
}

/// Walks every script a little, through both clients.
fn agrees_a_little(site: Site) {
    for client in [Client::Redis, Client::Fred] {
        agrees(client, site, Plans::one(token_bucket), FEW_STEPS);
        agrees(client, site, Plans::CHAIN, FEW_STEPS);
        for count in 2..=3 {
            agrees(client, site, Plans::compact_buckets(count), FEW_STEPS / 4);
        }
    }
}

/// Walks under so many token buckets of the form that has a script of its own, and sees to it that it is that one.
fn agrees_on_compact_buckets(count: usize) {
    let plans = Plans::compact_buckets(count);
    let scripts = agrees(Client::Redis, Site::Redis, plans, STEPS);
    let own = Script::for_token_buckets(count).expect("a script");
    let taken = scripts.iter().filter(|script| **script == own).count();
    assert!(taken * 3 > scripts.len(), "{taken} of {}", scripts.len());
}

#[test]
fn prop_lua_agrees_with_the_model_on_token_buckets() {
    agrees(Client::Redis, Site::Redis, Plans::one(token_bucket), STEPS);
}

#[test]
fn prop_lua_agrees_with_the_model_on_token_buckets_in_turn() {
    for make in [token_bucket, compact_bucket, bucket_far_from_others] {
        let plans = Plans::one(make).in_turn();
        agrees(Client::Redis, Site::Redis, plans, FEW_STEPS);
    }
}

#[test]
fn prop_lua_agrees_with_the_model_on_one_compact_token_bucket() {
    agrees_on_compact_buckets(1);
}

#[test]
fn prop_lua_agrees_with_the_model_on_two_compact_token_buckets() {
    agrees_on_compact_buckets(2);
}

#[test]
fn prop_lua_agrees_with_the_model_on_three_compact_token_buckets() {
    agrees_on_compact_buckets(3);
}

#[test]
fn prop_lua_agrees_with_the_model_when_calls_are_gathered() {
    for client in [Client::Redis, Client::Fred] {
        for count in 1..=3 {
            let plans = Plans::compact_buckets(count);
            agrees_when_gathered(client, Flavour::Redis, plans, FEW_STEPS);
        }
        agrees_when_gathered(client, Flavour::Redis, Plans::CHAIN, FEW_STEPS);
    }
    for flavour in [Flavour::Redis62, Flavour::Valkey] {
        let plans = Plans::compact_buckets(2);
        agrees_when_gathered(Client::Redis, flavour, plans, FEW_STEPS / 2);
    }
}

#[test]
fn prop_lua_agrees_with_the_model_on_sliding_windows() {
    agrees(
        Client::Redis,
        Site::Redis,
        Plans::one(sliding_window),
        STEPS,
    );
}

#[test]
fn prop_lua_agrees_with_the_model_on_suppressing_windows() {
    agrees(
        Client::Redis,
        Site::Redis,
        Plans::one(suppressing_window),
        STEPS,
    );
}

/// A window that gets shorter each time when it is full keeps more sub-buckets than one plan alone ever makes: as many as one call
/// may write, and no more.
#[test]
fn lua_agrees_with_the_model_on_windows_with_as_many_sub_buckets_as_there_may_be() {
    let limits: [fn(Duration) -> Limit; 2] = [
        |window| {
            let asked = SlidingWindow::new(1_000_000, window).with_granularity(window / 256);
            asked.try_into().expect("a sound window")
        },
        |window| {
            let asked = SuppressingWindow::new(1, window).with_granularity(window / 256);
            asked.try_into().expect("a sound window")
        },
    ];
    for limit in limits {
        let ground = Ground::new(Client::Redis, Site::Redis.nodes()[0]);
        let (mut walker, mut window, mut most) = (Walker::new("key"), Duration::from_secs(256), 0);
        block_on(async {
            for _ in 0..4 {
                walker.set_plan(0, limit(window), false);
                for _ in 0..250 {
                    most = most.max(walker.spend(&ground, Cost::ONE).await);
                    ground.tools.clock.advance(window / 256);
                }
                window /= 2;
            }
        });
        assert_eq!(most, 257);
    }
}

#[test]
fn prop_lua_agrees_with_the_model_on_fixed_windows() {
    agrees(Client::Redis, Site::Redis, Plans::one(fixed_window), STEPS);
}

/// A long window beside short ones that hold more than it counts.
#[test]
fn lua_agrees_with_the_model_on_fixed_windows_of_more_units_than_are_counted() {
    let ground = Ground::new(Client::Redis, Site::Redis.nodes()[0]);
    let (mut walker, most) = (
        Walker::new("key"),
        Cost::new(1_000_000_000).expect("a cost"),
    );
    block_on(async {
        walker.set_plan(0, "fixed 1/h".parse().expect("a limit"), false);
        walker.spend(&ground, Cost::ONE).await;
        walker.set_plan(0, "fixed 1000000000/1ms".parse().expect("a limit"), false);
        for _ in 0..5 {
            ground.tools.clock.advance(Duration::from_millis(1));
            walker.spend(&ground, most).await;
        }
    });
}

#[test]
fn prop_lua_agrees_with_the_model_on_fixed_windows_in_turn() {
    let plans = Plans::one(fixed_window_of_a_few).in_turn();
    agrees(Client::Redis, Site::Redis, plans, STEPS);
}

#[test]
fn prop_lua_agrees_with_the_model_on_chains() {
    agrees(Client::Redis, Site::Redis, Plans::CHAIN, STEPS);
}

#[test]
fn prop_lua_agrees_with_the_model_through_fred() {
    agrees(
        Client::Fred,
        Site::Redis,
        Plans::one(token_bucket),
        FEW_STEPS,
    );
    agrees(Client::Fred, Site::Redis, Plans::CHAIN, FEW_STEPS);
}

#[test]
fn prop_lua_agrees_with_the_model_on_valkey() {
    agrees(Client::Redis, Site::Valkey, Plans::CHAIN, STEPS);
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
