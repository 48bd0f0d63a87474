//! The bounds that the README publishes: how much can be admitted at most, and what it costs, whatever goes wrong.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what a test is made of may panic"
)]

use std::sync::Arc;
use std::time::Duration;

use limiter_core::{
    CheckError, CircuitBreaker, Cost, Decision, DefaultRateLimiter, FailurePolicy,
    FallbackRepository, InMemoryPlanRegistry, Key, Limit, LocalStore, Outcome, Plan, PlanName,
    RandomSource, RateLimiter, RateLimiterRepository, Share, Source,
};
use limiter_memory::MemoryStore;
use limiter_testkit::{ManualClock, ManualRandom, SeededRandom, block_on, tokio};
use limiter_tests::{Tally, Trouble, TroubledStore};

/// One plan of each algorithm, all of the same limit. Nothing is left to chance by the suppressing one.
fn plans(limit: u32) -> Vec<Plan> {
    let texts = [
        ("bucket", format!("{limit}/min")),
        ("sliding", format!("sliding {limit}/min")),
        (
            "suppressing",
            format!("suppressing {limit}/min hard {limit}"),
        ),
        ("fixed", format!("fixed {limit}/min")),
    ];
    let plan = |(name, text): &(&str, String)| Plan::new(*name, text.as_str()).unwrap();
    texts.iter().map(plan).collect()
}

fn names(plans: &[Plan]) -> Vec<PlanName> {
    plans.iter().map(|plan| plan.name().clone()).collect()
}

/// One of the nodes that share a store.
fn node(store: Arc<dyn RateLimiterRepository>, plans: &[Plan]) -> DefaultRateLimiter {
    let registry = InMemoryPlanRegistry::new(plans.to_vec()).unwrap();
    DefaultRateLimiter::new(Arc::new(registry), store)
}

fn local_on(clock: &ManualClock) -> Arc<MemoryStore> {
    Arc::new(
        MemoryStore::builder()
            .clock(Arc::new(clock.clone()))
            .build()
            .unwrap(),
    )
}

fn key() -> Key {
    Key::new("user:42").unwrap()
}

async fn check(node: &DefaultRateLimiter, plan: &Plan) -> Decision {
    let name = plan.name().clone();
    node.check(&key(), &[name], Cost::ONE).await.unwrap()
}

/// Asks `times` times; returns how many were allowed.
async fn allowed(node: &DefaultRateLimiter, plan: &Plan, times: u32) -> u32 {
    let mut allowed = 0;
    for _ in 0..times {
        allowed += u32::from(check(node, plan).await.is_allowed());
    }
    allowed
}

/// Asks until nothing is left; returns how many were allowed.
async fn allowed_until_denied(node: &DefaultRateLimiter, plan: &Plan) -> u32 {
    let mut allowed = 0;
    while check(node, plan).await.is_allowed() {
        allowed += 1;
    }
    allowed
}

/// Returns what a plan admits at once, and the units that it brings in how many microseconds.
fn bound_of(plan: &Plan) -> (u128, u128, u128) {
    let units = u128::from(plan.limit().units());
    match plan.limit() {
        Limit::TokenBucket(rule) => (
            units,
            rule.rate().units().into(),
            rule.rate().period_us().into(),
        ),
        other => (units, units, other.window().as_micros()),
    }
}

/// Asks two nodes for all that there is, again and again while time goes on; returns when how much was admitted.
fn admitted_over_time(plan: &Plan, steps: usize) -> Vec<(u128, u128)> {
    let clock = ManualClock::new();
    admitted_by(local_on(&clock), &clock, plan, steps)
}

/// The same of a store on `clock`.
fn admitted_by(
    store: Arc<dyn RateLimiterRepository>,
    clock: &ManualClock,
    plan: &Plan,
    steps: usize,
) -> Vec<(u128, u128)> {
    let random = SeededRandom::new(17);
    let nodes = [0, 1].map(|_| node(Arc::clone(&store), std::slice::from_ref(plan)));
    let (mut passed_us, mut admitted) = (0, Vec::new());
    for nth in 0..steps {
        let count = block_on(allowed_until_denied(&nodes[nth % 2], plan));
        admitted.push((passed_us, count.into()));
        // Often a little, sometimes more than a whole window.
        let parts = [50, 7, 2, 1][usize::try_from(random.next_u64() % 4).unwrap()];
        let wait = plan.limit().window() / parts + Duration::from_micros(random.next_u64() % 9);
        let wait = Duration::from_micros(u64::try_from(wait.as_micros()).unwrap());
        clock.advance(wait);
        passed_us += wait.as_micros();
    }
    admitted
}

/// Returns what was admitted in each interval that begins and ends with an admission, and its length.
fn intervals(admitted: &[(u128, u128)]) -> impl Iterator<Item = (u128, u128)> {
    (0..admitted.len()).flat_map(move |first| {
        let (from, mut sum) = (&admitted[first..], 0);
        from.iter().map(move |(at_us, count)| {
            sum += count;
            (at_us - from[0].0, sum)
        })
    })
}

/// `capacity + rate x t` in any time `t`; and no less, where nobody lets the bucket overflow.
#[test]
fn healthy_bucket_admits_at_most_its_capacity_and_its_rate_times_the_time() {
    for text in ["30/min", "7/s burst 20", "5.5/s", "1000/24h burst 3", "1/h"] {
        let plan = Plan::new("gold", text).unwrap();
        let (capacity, units, period_us) = bound_of(&plan);
        let admitted = admitted_over_time(&plan, 200);
        for (length, sum) in intervals(&admitted) {
            let most = capacity * period_us + length * units;
            assert!(sum * period_us <= most, "{plan}: {sum} in {length} us");
        }
        let mut tokens = capacity * period_us;
        let mut at_us = 0;
        for (moment_us, count) in admitted {
            tokens = (capacity * period_us).min(tokens + (moment_us - at_us) * units);
            assert_eq!(count, tokens / period_us, "{plan} at {moment_us} us");
            (tokens, at_us) = (tokens - count * period_us, moment_us);
        }
    }
}

/// `L` in every interval of one window.
#[test]
fn healthy_sliding_window_admits_at_most_its_limit_in_every_window() {
    for text in [
        "sliding 30/min",
        "sliding 5/s every 1s",
        "suppressing 30/min hard 30",
    ] {
        let plan = Plan::new("gold", text).unwrap();
        let (limit, _, window_us) = bound_of(&plan);
        let admitted = admitted_over_time(&plan, 200);
        for (length, sum) in intervals(&admitted) {
            assert!(
                length >= window_us || sum <= limit,
                "{plan}: {sum} in {length} us"
            );
        }
        assert!(
            intervals(&admitted).any(|(_, sum)| sum > 3 * limit),
            "the limit comes again"
        );
    }
}

/// The hard limit in every interval of one window, however lucky the draws: all that chance may let
/// pass, passes. Nothing is left from the hard limit on, so one unit less is admitted.
#[test]
fn healthy_suppressing_window_admits_less_than_its_hard_limit_in_every_window() {
    for text in [
        "suppressing 30/min hard 45",
        "suppressing 10/s hard 40",
        "suppressing 5/24h hard 50",
    ] {
        let plan = Plan::new("gold", text).unwrap();
        let Limit::SuppressingWindow(rule) = plan.limit() else {
            unreachable!("{text}")
        };
        let (soft, hard) = (rule.soft().limit().into(), rule.hard().into());
        let window_us = plan.limit().window().as_micros();
        let (clock, lucky) = (ManualClock::new(), ManualRandom::new());
        lucky.set(u64::MAX);
        let store = MemoryStore::builder()
            .clock(Arc::new(clock.clone()))
            .random(Arc::new(lucky));
        let admitted = admitted_by(Arc::new(store.build().unwrap()), &clock, &plan, 200);
        let within = intervals(&admitted).filter(|(length, _)| *length < window_us);
        let most: u128 = within.map(|(_, sum)| sum).max().unwrap();
        assert!(most > soft && most + 1 == hard, "{plan}: {most} in one");
        assert!(
            intervals(&admitted).any(|(_, sum)| sum > 3 * hard),
            "the limit comes again"
        );
    }
}

/// `L` in a window, and up to `2L` in the time of one across a boundary.
#[test]
fn healthy_fixed_window_admits_at_most_twice_its_limit_in_the_time_of_a_window() {
    let plan = Plan::new("gold", "fixed 30/min").unwrap();
    let (limit, _, window_us) = bound_of(&plan);
    let (mut ends_us, mut most) = (0, 0);
    let admitted = admitted_over_time(&plan, 200);
    for (at_us, count) in &admitted {
        assert_eq!(*count, if *at_us >= ends_us { limit } else { 0 });
        if *count > 0 {
            ends_us = at_us + window_us;
        }
    }
    for (length, sum) in intervals(&admitted).filter(|(length, _)| *length < window_us) {
        assert!(sum <= 2 * limit, "{sum} in {length} us");
    }
    // At the end of one window and the beginning of the next.
    let clock = ManualClock::new();
    let node = node(
        Arc::new(TroubledStore::on(&clock)),
        std::slice::from_ref(&plan),
    );
    block_on(async {
        assert_eq!(allowed(&node, &plan, 1).await, 1);
        clock.advance(Duration::from_millis(59_999));
        most += allowed_until_denied(&node, &plan).await;
        clock.advance(Duration::from_millis(1));
        most += allowed_until_denied(&node, &plan).await;
    });
    assert_eq!(most, 59, "the bound is nearly reached");
}

#[test]
fn healthy_store_admits_exactly_the_limit_however_many_nodes_race() {
    let (limit, nodes, tasks, times) = (500, 4, 4, 100);
    for plan in plans(limit) {
        let store: Arc<dyn RateLimiterRepository> =
            Arc::new(TroubledStore::on(&ManualClock::new()));
        let plan = [plan];
        let total = block_on(async {
            let mut racing = Vec::new();
            for _ in 0..nodes {
                let node = Arc::new(node(Arc::clone(&store), &plan));
                for _ in 0..tasks {
                    let (node, plan) = (Arc::clone(&node), plan[0].clone());
                    racing.push(tokio::spawn(
                        async move { allowed(&node, &plan, times).await },
                    ));
                }
            }
            let mut total = 0;
            for caller in racing {
                total += caller.await.unwrap();
            }
            total
        });
        assert_eq!(total, limit, "{}", plan[0]);
    }
}

#[test]
fn healthy_chain_admits_exactly_its_tightest_limit() {
    let clock = ManualClock::new();
    let plans = [
        Plan::new("wide", "90/min").unwrap(),
        Plan::new("tight", "sliding 40/min").unwrap(),
        Plan::new("trial", "fixed 10/min").unwrap().in_shadow(),
    ];
    let node = node(Arc::new(TroubledStore::on(&clock)), &plans);
    let allowed = block_on(async {
        let mut allowed = 0;
        for _ in 0..100 {
            let decision = node.check(&key(), &names(&plans), Cost::ONE).await.unwrap();
            allowed += u32::from(decision.is_allowed());
        }
        allowed
    });
    assert_eq!(allowed, 40);
}

#[test]
fn state_lost_r_times_admits_at_most_the_limit_once_more_each_time() {
    let (limit, losses) = (30, 3);
    for plan in plans(limit) {
        let store = Arc::new(TroubledStore::on(&ManualClock::new()));
        let node = node(Arc::clone(&store) as _, std::slice::from_ref(&plan));
        let total = block_on(async {
            let mut total = allowed(&node, &plan, 2 * limit).await;
            for _ in 0..losses {
                store.lose_state();
                total += allowed(&node, &plan, 2 * limit).await;
            }
            total
        });
        assert!(total <= limit * (1 + losses), "{plan}: {total}");
        assert_eq!(total, limit * (1 + losses), "{plan}: the bound is tight");
    }
}

/// All that the shared store had granted, then each node's share on top: L + L x f + N at most.
#[test]
fn fallback_on_n_nodes_admits_at_most_the_limit_its_share_and_one_a_node() {
    for (limit, nodes, percent) in [
        (100, 4, 100),
        (100, 7, 50),
        (10, 20, 100),
        (1, 3, 1),
        (999, 10, 33),
    ] {
        for plan in plans(limit) {
            let clock = ManualClock::new();
            let store = Arc::new(TroubledStore::on(&clock));
            let share = Share::of_nodes(nodes)
                .unwrap()
                .with_percent(percent)
                .unwrap();
            let total = block_on(async {
                let mut total = 0;
                for nth in 0..nodes {
                    let shared: Arc<dyn RateLimiterRepository> = Arc::clone(&store) as _;
                    let local = LocalStore::new(local_on(&clock), share);
                    // The policy and the decorator have the same bound.
                    let node = if nth % 2 == 0 {
                        node(shared, std::slice::from_ref(&plan))
                            .with_failure_policy(FailurePolicy::Fallback(local))
                    } else {
                        let shared = FallbackRepository::new(shared, local);
                        node(Arc::new(shared), std::slice::from_ref(&plan))
                    };
                    if nth == 0 {
                        total += allowed(&node, &plan, 2 * limit).await;
                        assert_eq!(total, limit);
                        store.suffer(Trouble::Down);
                    }
                    total += allowed(&node, &plan, 2 * limit).await;
                    assert_eq!(check(&node, &plan).await.source(), Source::Fallback);
                }
                total
            });
            let bound = limit + limit * percent / 100 + nodes;
            assert!(
                total <= bound,
                "{plan}, {nodes} nodes, {percent} %: {total} > {bound}"
            );
            assert!(total > limit, "a fallback that grants nothing is none");
        }
    }
}

/// The same in units, whatever a request costs: one that is dearer than a node's share is denied.
#[test]
fn fallback_keeps_its_bound_for_requests_of_any_cost() {
    for (limit, nodes, percent, cost) in [
        (10, 8, 100, 3),
        (10, 8, 100, 2),
        (100, 4, 100, 7),
        (100, 4, 100, 26),
        (100, 7, 50, 100),
        (999, 10, 33, 33),
    ] {
        let cost = Cost::new(cost).unwrap();
        for plan in plans(limit) {
            let clock = ManualClock::new();
            let store = Arc::new(TroubledStore::on(&clock));
            let share = Share::of_nodes(nodes).unwrap();
            let share = share.with_percent(percent).unwrap();
            // A plan on trial has a still smaller share, and changes nothing.
            let trial = Plan::new("trial", format!("{limit}/24h").as_str()).unwrap();
            let chain = [trial.in_shadow(), plan.clone()];
            let chain_names = names(&chain);
            for by_policy in [true, false] {
                let mut by_fallback = 0;
                for _ in 0..nodes {
                    let shared: Arc<dyn RateLimiterRepository> = Arc::clone(&store) as _;
                    let local = LocalStore::new(local_on(&clock), share);
                    let node = if by_policy {
                        node(shared, &chain).with_failure_policy(FailurePolicy::Fallback(local))
                    } else {
                        node(Arc::new(FallbackRepository::new(shared, local)), &chain)
                    };
                    store.suffer(Trouble::Down);
                    for _ in 0..40 {
                        let decision = block_on(node.check(&key(), &chain_names, cost)).unwrap();
                        assert_eq!(decision.source(), Source::Fallback, "{plan}");
                        by_fallback += u32::from(decision.is_allowed()) * cost.get();
                    }
                }
                // The shared store grants the limit at most; here it was never there.
                let bound = limit * percent / 100 + nodes;
                assert!(
                    by_fallback <= bound,
                    "{plan}, {nodes} nodes, {percent} %, {cost}: {by_fallback} > {bound}"
                );
                // And no less than what fits.
                let of_each = share.of(&plan).unwrap().limit().units() / cost.get();
                assert_eq!(by_fallback, nodes * of_each * cost.get(), "{plan}, {cost}");
            }
        }
    }
}

/// The share of the rate, over many periods: what each node rounds up, it takes longer for.
#[test]
fn fallback_over_many_periods_admits_at_most_the_share_of_what_the_limit_brings() {
    for (text, nodes, percent) in [
        ("100/min", 4, 100),
        ("1000/30d", 20, 100),
        ("1000/31d", 50, 50),
        ("100/24h", 200, 100),
        ("100000/366d", 10, 10),
        ("7/s burst 3", 5, 33),
        ("sliding 100/min", 7, 50),
        ("sliding 10/24h", 20, 100),
        ("sliding 3/300d", 2, 100),
        ("fixed 100/min", 7, 33),
        ("fixed 3/h", 4, 1),
        ("suppressing 10/min hard 10", 7, 50),
    ] {
        let plan = Plan::new("gold", text).unwrap();
        let clock = ManualClock::new();
        let store = Arc::new(TroubledStore::on(&clock));
        store.suffer(Trouble::Down);
        let share = Share::of_nodes(nodes).unwrap();
        let share = share.with_percent(percent).unwrap();
        let cluster: Vec<_> = (0..nodes)
            .map(|_| {
                let local = LocalStore::new(local_on(&clock), share);
                node(Arc::clone(&store) as _, std::slice::from_ref(&plan))
                    .with_failure_policy(FailurePolicy::Fallback(local))
            })
            .collect();
        let (capacity, units, period_us) = bound_of(&plan);
        let (step_us, mut passed_us, mut total) = (plan.limit().window() / 3, 0, 0);
        for _ in 0..25 {
            for node in &cluster {
                total += u128::from(block_on(allowed_until_denied(node, &plan)));
            }
            // On top of nothing, for the shared store was never there.
            let brought = capacity * period_us + passed_us * units;
            let bound = u128::from(percent) * brought + 100 * u128::from(nodes) * period_us;
            assert!(
                total * 100 * period_us <= bound,
                "{plan}, {nodes} nodes, {percent} %: {total} after {passed_us} us"
            );
            clock.advance(step_us);
            passed_us += step_us.as_micros();
        }
        assert!(total > 0, "a fallback that grants nothing is none");
    }
}

#[test]
fn fallback_behind_an_open_breaker_has_the_same_bound() {
    let (limit, clock) = (100, ManualClock::new());
    let plan = Plan::new("gold", "sliding 100/min").unwrap();
    let store = Arc::new(TroubledStore::on(&clock));
    let breaker = CircuitBreaker::new(
        Arc::clone(&store) as _,
        Arc::new(clock.clone()),
        Arc::new(SeededRandom::new(1)),
    );
    let local = LocalStore::new(local_on(&clock), Share::of_nodes(1).unwrap());
    let node = node(Arc::new(breaker), std::slice::from_ref(&plan))
        .with_failure_policy(FailurePolicy::Fallback(local));
    block_on(async {
        store.suffer(Trouble::Down);
        assert_eq!(allowed(&node, &plan, 300).await, limit);
        assert!(
            store.calls() < 300,
            "the breaker spares a store that is down"
        );
    });
}

/// What is allowed while calls time out, and what is decided by the store before and after them.
struct TimedOut {
    by_store: u32,
    meanwhile: Vec<Decision>,
}

/// Asks 20 times, 5 times while calls time out, and then until nothing is left. A call is never tried again.
async fn time_out(policy: FailurePolicy, plan: &Plan, trouble: Trouble) -> TimedOut {
    let store = Arc::new(TroubledStore::on(&ManualClock::new()));
    let node = node(Arc::clone(&store) as _, std::slice::from_ref(plan));
    let node = node.with_failure_policy(policy);
    let mut by_store = allowed(&node, plan, 20).await;
    store.suffer(trouble);
    let mut meanwhile = Vec::new();
    for _ in 0..5 {
        meanwhile.push(check(&node, plan).await);
    }
    assert_eq!(store.calls(), 25, "{plan}: one request is one call");
    store.suffer(Trouble::None);
    by_store += allowed(&node, plan, 100).await;
    TimedOut {
        by_store,
        meanwhile,
    }
}

/// The store admits nothing over the limit, and charges at most one cost that nobody got for each call; what is done with
/// the calls themselves, the policy says.
#[test]
fn time_out_admits_nothing_over_the_limit_and_overcharges_at_most_one_cost() {
    for (trouble, overcharged) in [(Trouble::AnswerLost, 5), (Trouble::CallLost, 0)] {
        for plan in plans(50) {
            let ask = |policy| block_on(time_out(policy, &plan, trouble));

            let closed = ask(FailurePolicy::FailClosed);
            assert_eq!(
                closed.by_store,
                50 - overcharged,
                "{plan} after {trouble:?}"
            );
            for lost in &closed.meanwhile {
                assert_eq!(lost.outcome(), &Outcome::Unavailable);
                assert_eq!(lost.source(), Source::FailClosed);
            }

            let open = ask(FailurePolicy::FailOpen);
            assert_eq!(open.by_store, 50 - overcharged, "{plan} after {trouble:?}");
            for lost in &open.meanwhile {
                assert!(lost.is_allowed() && lost.source() == Source::FailOpen);
            }

            let share = Share::of_nodes(25).unwrap();
            let local = LocalStore::new(local_on(&ManualClock::new()), share);
            let local = ask(FailurePolicy::Fallback(local));
            assert_eq!(local.by_store, 50 - overcharged, "{plan} after {trouble:?}");
            let granted = local.meanwhile.iter().filter(|lost| lost.is_allowed());
            assert_eq!(granted.count(), 2, "its share of the limit, and no more");
            let sources = local.meanwhile.iter().map(Decision::source);
            assert!(sources.into_iter().all(|source| source == Source::Fallback));
        }
    }
}

#[test]
fn fail_open_is_unbounded_counted_and_named() {
    let plan = Plan::new("gold", "10/min").unwrap();
    let (store, tally) = (
        Arc::new(TroubledStore::on(&ManualClock::new())),
        Arc::new(Tally::default()),
    );
    let node = node(Arc::clone(&store) as _, std::slice::from_ref(&plan))
        .with_observer(Arc::clone(&tally) as _);
    block_on(async {
        assert_eq!(allowed(&node, &plan, 30).await, 10);
        store.suffer(Trouble::Down);
        for _ in 0..1_000 {
            let decision = check(&node, &plan).await;
            assert!(decision.is_allowed());
            assert_eq!(decision.source(), Source::FailOpen);
        }
        store.suffer(Trouble::None);
        assert_eq!(
            allowed(&node, &plan, 30).await,
            0,
            "the store knows what it knew"
        );
    });
    assert_eq!(tally.of("fail_open"), 1_000);
    assert_eq!(tally.of("unavailable"), 1_000);
    assert_eq!(tally.of("store"), 60);
    assert_eq!(tally.of("decisions"), 1_060);
}

#[test]
fn fail_closed_admits_nothing_while_the_store_is_down() {
    let plan = Plan::new("gold", "10/min").unwrap();
    let (store, tally) = (
        Arc::new(TroubledStore::on(&ManualClock::new())),
        Arc::new(Tally::default()),
    );
    let node = node(Arc::clone(&store) as _, std::slice::from_ref(&plan))
        .with_failure_policy(FailurePolicy::FailClosed)
        .with_observer(Arc::clone(&tally) as _);
    store.suffer(Trouble::Down);
    assert_eq!(block_on(allowed(&node, &plan, 100)), 0);
    assert_eq!(tally.of("fail_closed"), 100);
}

#[test]
fn mistakes_of_the_caller_never_fail_open() {
    let plan = Plan::new("gold", "10/min").unwrap();
    let store = Arc::new(TroubledStore::on(&ManualClock::new()));
    let node = node(Arc::clone(&store) as _, std::slice::from_ref(&plan));
    store.suffer(Trouble::Down);
    block_on(async {
        let unknown = [PlanName::new("silver").unwrap()];
        let answer = node.check(&key(), &unknown, Cost::ONE).await;
        assert!(matches!(answer, Err(CheckError::UnknownPlan(_))));
        let dear = Cost::new(11).unwrap();
        let answer = node.check(&key(), &names(&[plan]), dear).await;
        assert!(matches!(answer, Err(CheckError::Request(_))));
    });
    assert_eq!(store.calls(), 0);
}
