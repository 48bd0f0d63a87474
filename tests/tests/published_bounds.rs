//! The bounds that the README publishes: how much can be admitted at most, and what it costs, whatever goes wrong.
#![allow(clippy::unwrap_used, reason = "what a test is made of may panic")]

use std::sync::Arc;

use limiter_core::{
    CheckError, CircuitBreaker, Cost, Decision, DefaultRateLimiter, FailurePolicy,
    FallbackRepository, InMemoryPlanRegistry, Key, LocalStore, Outcome, Plan, PlanName,
    RateLimiter, RateLimiterRepository, Share, Source,
};
use limiter_memory::MemoryStore;
use limiter_testkit::{ManualClock, SeededRandom, block_on, tokio};
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

/// A call that timed out is never tried again: it may have been charged, and at most once.
#[test]
fn time_out_admits_nothing_over_the_limit_and_overcharges_at_most_one_cost() {
    for (trouble, overcharged) in [(Trouble::AnswerLost, 1), (Trouble::CallLost, 0)] {
        for plan in plans(50) {
            let store = Arc::new(TroubledStore::on(&ManualClock::new()));
            let node = node(Arc::clone(&store) as _, std::slice::from_ref(&plan))
                .with_failure_policy(FailurePolicy::FailClosed);
            block_on(async {
                let mut total = allowed(&node, &plan, 20).await;
                store.suffer(trouble);
                let lost = check(&node, &plan).await;
                assert_eq!(lost.outcome(), &Outcome::Unavailable);
                assert_eq!(lost.source(), Source::FailClosed);
                assert_eq!(store.calls(), 21, "{plan}: one request is one call");
                store.suffer(Trouble::None);
                total += allowed(&node, &plan, 100).await;
                assert_eq!(total, 50 - overcharged, "{plan} after {trouble:?}");
            });
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
