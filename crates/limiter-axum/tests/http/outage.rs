//! The store is away, under each policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use axum::Router;
use axum::routing::get as on_get;
use limiter_axum::{ClientIp, RateLimit, RateLimitLayer};
use limiter_core::{
    BreakerState, Charge, Cost, Decision, DefaultRateLimiter, FailurePolicy, Key, LocalStore,
    Observer, Plan, RateLimiterRepository, Share, Source, StoreError, Verdict,
};
use limiter_memory::MemoryStore;
use limiter_testkit::ManualClock;

use crate::harness::{get, registry, serve, short, statuses, text};

struct Away;

fn away() -> StoreError {
    StoreError::unavailable(Charge::Impossible, "connection refused")
}

#[async_trait]
impl RateLimiterRepository for Away {
    async fn try_acquire(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        Err(away())
    }

    async fn peek(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        Err(away())
    }

    async fn refund(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        Err(away())
    }

    async fn reset(&self, _: &Key, _: &[Plan]) -> Result<(), StoreError> {
        Err(away())
    }
}

/// Counts what an operator's metrics would.
#[derive(Default)]
struct Counts {
    failures: AtomicUsize,
    failed_open: AtomicUsize,
}

impl Observer for Counts {
    fn decided(&self, decision: &Decision) {
        let open = decision.source() == Source::FailOpen;
        self.failed_open
            .fetch_add(usize::from(open), Ordering::Relaxed);
    }

    fn store_failed(&self, _: &StoreError) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    fn breaker_changed(&self, _: BreakerState) {}
}

async fn with(policy: FailurePolicy) -> (String, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let limiter = DefaultRateLimiter::new(registry(&[("gold", "4/h")]), Arc::new(Away))
        .with_failure_policy(policy)
        .with_observer(counts.clone());
    let limit = RateLimit::plan("gold").refund_failures();
    let layer = RateLimitLayer::new(Arc::new(limiter), ClientIp::peer(), limit).unwrap();
    layer.verify().await.unwrap();
    counts.failures.store(0, Ordering::Relaxed);
    let router = Router::new()
        .route("/", on_get(|| async { "hello" }))
        .route(
            "/broken",
            on_get(|| async { http::StatusCode::BAD_GATEWAY }),
        );
    (serve(router.layer(layer)).await, counts)
}

#[tokio::test]
async fn failing_open_passes_is_counted_and_not_shown_to_clients() {
    let (url, counts) = with(FailurePolicy::FailOpen).await;
    assert_eq!(statuses(&url, 9).await, [200; 9]);
    assert_eq!(counts.failed_open.load(Ordering::Relaxed), 9);
    assert_eq!(counts.failures.load(Ordering::Relaxed), 9);
    let response = get(&url).await;
    assert!(text(response.headers(), "ratelimit").is_none());
    assert!(text(response.headers(), "retry-after").is_none());
    // Nothing can be given back either, and the handler's response is not held up by that.
    assert_eq!(get(&format!("{url}/broken")).await.status(), 502);
}

#[tokio::test]
async fn failing_closed_is_503_and_not_the_callers_fault() {
    let (url, counts) = with(FailurePolicy::FailClosed).await;
    let response = get(&url).await;
    assert_eq!(response.status(), 503);
    assert_eq!(text(response.headers(), "retry-after"), Some("1"));
    assert_eq!(text(response.headers(), "cache-control"), Some("no-store"));
    let body: serde_json::Value = response.json().await.unwrap();
    let problem = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
    assert_eq!(body["type"], problem);
    assert_eq!(body["title"], "Temporary Reduced Capacity");
    assert_eq!(body["status"], 503);
    assert_eq!(body["retryAfter"], 1);
    assert_eq!(counts.failures.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_fallback_limits_locally() {
    let local = MemoryStore::builder()
        .clock(Arc::new(ManualClock::new()))
        .build()
        .unwrap();
    let half = Share::of_nodes(2).unwrap();
    let (url, _) = with(FailurePolicy::Fallback(LocalStore::new(
        Arc::new(local),
        half,
    )))
    .await;
    assert_eq!(statuses(&url, 3).await, [200, 200, 429]);
    let denied = get(&url).await;
    assert!(short(denied.headers(), "ratelimit").starts_with("gold r=0"));
}
