//! What a failed request was never charged, or was charged elsewhere, is not given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::routing::post;
use axum::{Extension, Router};
use http::StatusCode;
use limiter_axum::{ClientIp, Limits, RateLimit, RateLimitLayer, Receipt, Rejection};
use limiter_core::{
    Charge, Cost, DefaultRateLimiter, FailurePolicy, FallbackRepository, Key, LocalStore, Plan,
    PlanName, RateLimiter, RateLimiterRepository, Refund, Share, StoreError, Verdict,
};
use limiter_memory::MemoryStore;
use limiter_testkit::ManualClock;
use tokio::sync::mpsc;

use crate::harness::{Bench, registry, serve};

/// A store in memory that cannot be reached while it is away.
struct Leaving {
    inner: Arc<MemoryStore>,
    away: AtomicBool,
}

impl Leaving {
    fn on(clock: &ManualClock) -> Arc<Self> {
        Arc::new(Self {
            inner: memory(clock),
            away: AtomicBool::new(false),
        })
    }

    fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::Relaxed);
    }

    fn reached(&self) -> Result<&MemoryStore, StoreError> {
        if self.away.load(Ordering::Relaxed) {
            return Err(StoreError::unavailable(
                Charge::Impossible,
                "connection refused",
            ));
        }
        Ok(&self.inner)
    }
}

#[async_trait]
impl RateLimiterRepository for Leaving {
    async fn try_acquire(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        self.reached()?.try_acquire_sync(key, plans, cost)
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        self.reached()?.peek_sync(key, plans, cost)
    }

    async fn refund(
        &self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
    ) -> Result<Verdict, StoreError> {
        self.reached()?.refund_sync(key, plans, refund)
    }

    async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        self.reached()?.reset_sync(key, plans)
    }
}

fn memory(clock: &ManualClock) -> Arc<MemoryStore> {
    let store = MemoryStore::builder().clock(Arc::new(clock.clone()));
    Arc::new(store.build().unwrap())
}

fn client() -> Key {
    Key::new("127.0.0.1").unwrap()
}

/// What is left of a plan for the client of these tests.
async fn left(limiter: &dyn RateLimiter, plan: &str) -> u32 {
    let plan = [PlanName::new(plan).unwrap()];
    let decision = limiter.peek(&client(), &plan, Cost::ONE).await.unwrap();
    decision.plans()[0].remaining
}

async fn spend(limiter: &dyn RateLimiter, plan: &str, cost: u32) {
    let (plan, cost) = ([PlanName::new(plan).unwrap()], Cost::new(cost).unwrap());
    let decision = limiter.check(&client(), &plan, cost).await.unwrap();
    assert!(decision.is_allowed(), "{decision}");
}

async fn fail(url: &str, times: u32) {
    let client = reqwest::Client::new();
    for _ in 0..times {
        let response = client.post(url).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}

/// Serves a route that is limited to ten an hour, and whose handler finds the store back again and fails.
async fn outlasted_outages(limiter: Arc<DefaultRateLimiter>, store: Arc<Leaving>) {
    spend(&*limiter, "hourly", 10).await;
    let limit = RateLimit::plan("hourly").refund_failures();
    let layer = RateLimitLayer::new(limiter.clone(), ClientIp::peer(), limit);
    let returning = store.clone();
    let back_but_failing = move || {
        returning.set_away(false);
        std::future::ready(StatusCode::INTERNAL_SERVER_ERROR)
    };
    let router = Router::new().route("/", post(back_but_failing));
    let url = serve(router.layer(layer.unwrap())).await;
    for _ in 0..10 {
        store.set_away(true);
        fail(&url, 1).await;
    }
    store.set_away(false);
    assert_eq!(left(&*limiter, "hourly").await, 0, "freed what was spent");
}

#[tokio::test]
async fn what_failed_open_is_not_given_back_to_the_store() {
    let clock = ManualClock::new();
    let store = Leaving::on(&clock);
    let limiter = DefaultRateLimiter::new(registry(&[("hourly", "fixed 10/h")]), store.clone());
    outlasted_outages(Arc::new(limiter), store).await;
}

#[tokio::test]
async fn what_the_local_store_charged_is_given_back_to_the_local_store() {
    let plans = || registry(&[("hourly", "fixed 10/h")]);
    let clock = ManualClock::new();
    let all = Share::of_nodes(1).unwrap();
    let hourly = [Plan::new("hourly", "fixed 10/h").unwrap()];
    for by_policy in [true, false] {
        let (store, own) = (Leaving::on(&clock), memory(&clock));
        let local = LocalStore::new(own.clone(), all);
        let limiter = if by_policy {
            DefaultRateLimiter::new(plans(), store.clone())
                .with_failure_policy(FailurePolicy::Fallback(local))
        } else {
            let guarded = FallbackRepository::new(store.clone(), local);
            DefaultRateLimiter::new(plans(), Arc::new(guarded))
        };
        outlasted_outages(Arc::new(limiter), store).await;
        let standing = own.peek_sync(&client(), &hourly, Cost::ONE).unwrap();
        assert_eq!(
            standing.plans[0].remaining, 10,
            "stays charged: by_policy = {by_policy}"
        );
    }
}

#[tokio::test]
async fn a_shadow_plan_that_did_not_admit_is_not_given_anything_back() {
    let bench = Bench::new(&[("gold", "100/h"), ("~trial", "fixed 3/h")]);
    spend(&*bench.limiter, "trial", 3).await;
    let layer = bench.by_ip(RateLimit::plans(["gold", "trial"]).refund_failures());
    let router = Router::new().route("/", post(async || StatusCode::INTERNAL_SERVER_ERROR));
    fail(&serve(router.layer(layer)).await, 10).await;
    assert_eq!(left(&*bench.limiter, "trial").await, 0);
    assert_eq!(left(&*bench.limiter, "gold").await, 100);
}

type Kept = mpsc::UnboundedSender<Receipt>;

async fn charge_and_keep(limits: Limits, kept: Extension<Kept>) -> Result<(), Rejection> {
    let receipt = limits.charge(&RateLimit::plan("plan").cost(10)).await?;
    kept.send(receipt).unwrap();
    Ok(())
}

/// The client used ten again since: that is not the receipt's to give back.
#[tokio::test]
async fn a_refund_frees_nothing_of_others_once_its_own_units_are_free_again() {
    for (limit, regained_s) in [
        ("sliding 10/10s", 10),
        ("suppressing 10/10s hard 10", 10),
        ("fixed 10/10s", 10),
        ("1/s burst 10", 10),
    ] {
        let bench = Bench::new(&[("plan", limit)]);
        let (kept, mut sent) = mpsc::unbounded_channel::<Receipt>();
        let layer = bench.builder().build().unwrap();
        let router = Router::new().route("/", post(charge_and_keep));
        let url = serve(router.layer(layer).layer(Extension(kept))).await;
        let response = reqwest::Client::new().post(url).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let receipt = sent.recv().await.unwrap();
        bench.clock.advance(Duration::from_secs(regained_s));
        spend(&*bench.limiter, "plan", 10).await;
        receipt.refund().await.unwrap();
        assert_eq!(left(&*bench.limiter, "plan").await, 0, "{limit}");
    }
}
