//! The store is away, under each policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::routing::get as on_get;
use limiter_axum::{ClientIp, Limits, RateLimit, RateLimitLayer, Rejection};
use limiter_core::{
    BreakerState, Charge, CircuitBreaker, Cost, DeadlineRepository, Decision, DefaultRateLimiter,
    FailurePolicy, Key, LocalStore, Observer, Plan, RateLimiterRepository, Refund, Share, Source,
    StoreError, Verdict,
};
use limiter_memory::MemoryStore;
use limiter_testkit::{ManualClock, ManualRandom, ManualTimer};

use crate::harness::{get, registry, serve, short, statuses, text};

/// How a store is away.
#[derive(Clone, Copy)]
enum Away {
    /// It refuses at once.
    Refuses,
    /// Its client waits for ever.
    Hangs,
    /// It does not know the password.
    Misconfigured,
}

impl Away {
    async fn answer<T>(self) -> Result<T, StoreError> {
        match self {
            Self::Refuses => Err(StoreError::unavailable(
                Charge::Impossible,
                "connection refused",
            )),
            Self::Hangs => std::future::pending().await,
            Self::Misconfigured => Err(StoreError::misconfigured(
                "give the user and password that the server knows",
                "WRONGPASS",
            )),
        }
    }
}

#[async_trait]
impl RateLimiterRepository for Away {
    async fn try_acquire(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        self.answer().await
    }

    async fn peek(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        self.answer().await
    }

    async fn refund(&self, _: &Key, _: &[Plan], _: &Refund) -> Result<Verdict, StoreError> {
        self.answer().await
    }

    async fn reset(&self, _: &Key, _: &[Plan]) -> Result<(), StoreError> {
        self.answer().await
    }
}

/// A store that charges, and whose client waits for ever when something is to be given back.
struct HangsOnRefunds(MemoryStore);

#[async_trait]
impl RateLimiterRepository for HangsOnRefunds {
    async fn try_acquire(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        self.0.try_acquire_sync(key, plans, cost)
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        self.0.peek_sync(key, plans, cost)
    }

    async fn refund(&self, _: &Key, _: &[Plan], _: &Refund) -> Result<Verdict, StoreError> {
        Away::Hangs.answer().await
    }

    async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        self.0.reset_sync(key, plans)
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

fn counted(
    store: Arc<dyn RateLimiterRepository>,
    policy: FailurePolicy,
) -> (DefaultRateLimiter, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let limiter = DefaultRateLimiter::new(registry(&[("gold", "4/h")]), store)
        .with_failure_policy(policy)
        .with_observer(counts.clone());
    (limiter, counts)
}

async fn serve_with(limiter: DefaultRateLimiter) -> String {
    let limit = RateLimit::plan("gold").refund_failures();
    let layer = RateLimitLayer::new(Arc::new(limiter), ClientIp::peer(), limit).unwrap();
    let router = Router::new()
        .route("/", on_get(|| async { "hello" }))
        .route(
            "/broken",
            on_get(|| async { http::StatusCode::BAD_GATEWAY }),
        )
        .route("/charged", on_get(charge_twice_and_fail));
    serve(router.layer(layer)).await
}

async fn charge_twice_and_fail(limits: Limits) -> Result<http::StatusCode, Rejection> {
    let limit = RateLimit::plan("gold").refund_failures();
    let _ = limits.charge(&limit).await?;
    let _ = limits.charge(&limit).await?;
    Ok(http::StatusCode::BAD_GATEWAY)
}

/// Serves on a store that refuses.
async fn with(policy: FailurePolicy) -> (String, Arc<Counts>) {
    with_store(Away::Refuses, policy).await
}

async fn with_store(store: Away, policy: FailurePolicy) -> (String, Arc<Counts>) {
    let (limiter, counts) = counted(Arc::new(store), policy);
    (serve_with(limiter).await, counts)
}

const DEADLINE: Duration = Duration::from_millis(50);
const MOMENT: Duration = Duration::from_micros(1);

/// A server on a store that hangs, and the timer of its deadline.
struct Hanging {
    url: String,
    timer: ManualTimer,
    counts: Arc<Counts>,
}

impl Hanging {
    async fn with(policy: FailurePolicy) -> Self {
        Self::on(Arc::new(Away::Hangs), policy).await
    }

    async fn on(store: Arc<dyn RateLimiterRepository>, policy: FailurePolicy) -> Self {
        let timer = ManualTimer::new();
        let store = DeadlineRepository::new(store, Arc::new(timer.clone()));
        let (limiter, counts) = counted(Arc::new(store.with_deadline(DEADLINE)), policy);
        let url = serve_with(limiter).await;
        Self { url, timer, counts }
    }

    /// Sends a request, which must not be answered before the deadline, and must be at it; so many times over as `waits` says.
    async fn get(&self, path: &str, waits: usize) -> reqwest::Response {
        let response = tokio::spawn(reqwest::get(format!("{}{path}", self.url)));
        for _ in 0..waits {
            self.timer.until_somebody_sleeps().await;
            self.timer.advance(DEADLINE - MOMENT);
            assert!(!response.is_finished());
            self.timer.until_somebody_sleeps().await;
            self.timer.advance(MOMENT);
        }
        let in_time = tokio::time::timeout(Duration::from_secs(30), response);
        in_time.await.unwrap().unwrap().unwrap()
    }
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
    // Nothing was charged, so that nobody asks the store to give it back.
    assert_eq!(get(&format!("{url}/broken")).await.status(), 502);
    assert_eq!(counts.failures.load(Ordering::Relaxed), 9 + 2);
}

#[tokio::test]
async fn failing_closed_is_503_and_not_the_callers_fault() {
    let (url, counts) = with(FailurePolicy::FailClosed).await;
    let response = get(&url).await;
    assert_eq!(response.status(), 503);
    assert_eq!(text(response.headers(), "retry-after"), Some("1"));
    assert_eq!(text(response.headers(), "cache-control"), Some("no-store"));
    assert!(text(response.headers(), "ratelimit").is_none());
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
    // Clients see the plan as it is, and not that this node grants a half of it.
    assert_eq!(
        short(denied.headers(), "ratelimit-policy"),
        "gold q=4 w=3600"
    );
    assert!(short(denied.headers(), "ratelimit").starts_with("gold r=0"));
}

#[tokio::test]
async fn a_store_that_is_away_is_no_mistake_of_the_layer() {
    let (limiter, counts) = counted(Arc::new(Away::Refuses), FailurePolicy::FailClosed);
    let limit = RateLimit::plan("gold");
    let layer = RateLimitLayer::new(Arc::new(limiter), ClientIp::peer(), limit).unwrap();
    assert!(layer.verify().await.is_ok());
    // It may only take long to connect, and is asked for a while.
    assert_eq!(counts.failures.load(Ordering::Relaxed), 10);
}

#[tokio::test]
async fn a_misconfigured_store_is_found_when_the_service_starts() {
    for policy in [FailurePolicy::FailOpen, FailurePolicy::FailClosed] {
        let (limiter, counts) = counted(Arc::new(Away::Misconfigured), policy);
        let limit = RateLimit::plan("gold");
        let layer = RateLimitLayer::new(Arc::new(limiter), ClientIp::peer(), limit).unwrap();
        let found = layer.verify().await.unwrap_err();
        let cause = std::error::Error::source(&found).unwrap().to_string();
        assert!(cause.contains("give the user and password"), "{cause}");
        assert_eq!(counts.failures.load(Ordering::Relaxed), 1);
    }
}

/// That is no outage: it does not go away by itself, and letting everybody pass would hide it.
#[tokio::test]
async fn a_misconfigured_store_is_500_and_the_log_says_why() {
    let log = crate::log::Log::start();
    let (url, counts) = with_store(Away::Misconfigured, FailurePolicy::FailOpen).await;
    assert_eq!(statuses(&url, 5).await, [500; 5]);
    assert_eq!(counts.failed_open.load(Ordering::Relaxed), 0);
    assert_eq!(counts.failures.load(Ordering::Relaxed), 5);
    let body = get(&url).await.text().await.unwrap();
    assert!(!body.contains("password"), "callers are not told: {body}");
    let (text, told) = (
        log.text(),
        "give the user and password that the server knows",
    );
    assert_eq!(text.matches("ERROR").count(), 1, "{text}");
    assert!(text.contains(told), "{text}");
}

#[tokio::test]
async fn a_misconfigured_store_is_an_outage_to_who_says_so() {
    let (limiter, counts) = counted(Arc::new(Away::Misconfigured), FailurePolicy::FailOpen);
    let url = serve_with(limiter.tolerating_misconfiguration()).await;
    assert_eq!(statuses(&url, 5).await, [200; 5]);
    assert_eq!(counts.failed_open.load(Ordering::Relaxed), 5);
}

#[tokio::test]
async fn a_store_that_hangs_fails_open_at_the_deadline_and_is_counted() {
    let hanging = Hanging::with(FailurePolicy::FailOpen).await;
    for nth in 1..=6 {
        let response = hanging.get("/", 1).await;
        assert_eq!(response.status(), 200);
        assert!(text(response.headers(), "ratelimit").is_none());
        assert_eq!(hanging.counts.failed_open.load(Ordering::Relaxed), nth);
        assert_eq!(hanging.counts.failures.load(Ordering::Relaxed), nth);
    }
    // Nothing was charged, so that nobody waits for it to be given back.
    assert_eq!(hanging.get("/broken", 1).await.status(), 502);
}

/// Three charges are given back all at once. The response is the handler's all the same.
#[tokio::test]
async fn a_store_that_hangs_holds_refunds_up_for_one_deadline_only() {
    let store = Arc::new(HangsOnRefunds(MemoryStore::new()));
    let hanging = Hanging::on(store, FailurePolicy::FailOpen).await;
    assert_eq!(hanging.get("/charged", 1).await.status(), 502);
    assert_eq!(hanging.counts.failures.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_store_that_hangs_is_503_at_the_deadline_if_closed() {
    let hanging = Hanging::with(FailurePolicy::FailClosed).await;
    let response = hanging.get("/", 1).await;
    assert_eq!(response.status(), 503);
    assert_eq!(text(response.headers(), "retry-after"), Some("1"));
    assert_eq!(hanging.counts.failures.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_store_that_hangs_is_stood_in_for_at_the_deadline() {
    let clock = ManualClock::new();
    let local = MemoryStore::builder().clock(Arc::new(clock.clone()));
    let half = Share::of_nodes(2).unwrap();
    let local = LocalStore::new(Arc::new(local.build().unwrap()), half);
    let hanging = Hanging::with(FailurePolicy::Fallback(local)).await;
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(hanging.get("/", 1).await.status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429]);
    let denied = hanging.get("/", 1).await;
    let wait = text(denied.headers(), "retry-after").unwrap();
    clock.advance(Duration::from_secs(wait.parse().unwrap()));
    assert_eq!(hanging.get("/", 1).await.status(), 200);
}

/// Nothing was decided then: nothing is counted, and the next caller is served.
#[tokio::test]
async fn who_hangs_up_while_the_store_hangs_leaves_nothing_behind() {
    let hanging = Hanging::with(FailurePolicy::FailOpen).await;
    let gone = tokio::spawn(reqwest::get(hanging.url.clone()));
    hanging.timer.until_somebody_sleeps().await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    while hanging.timer.is_anybody_asleep() {
        tokio::task::yield_now().await;
    }
    assert_eq!(hanging.get("/", 1).await.status(), 200);
    assert_eq!(hanging.counts.failures.load(Ordering::Relaxed), 1);
    assert_eq!(hanging.counts.failed_open.load(Ordering::Relaxed), 1);
}

/// A breaker outside of the deadline sees the failures, and spares the callers the wait.
#[tokio::test]
async fn a_breaker_around_the_deadline_stops_the_waiting() {
    let timer = ManualTimer::new();
    let in_time = DeadlineRepository::new(Arc::new(Away::Hangs), Arc::new(timer.clone()));
    let breaker = CircuitBreaker::new(
        Arc::new(in_time),
        Arc::new(ManualClock::new()),
        Arc::new(ManualRandom::new()),
    );
    let breaker = Arc::new(breaker);
    let (limiter, counts) = counted(breaker.clone(), FailurePolicy::FailOpen);
    let url = serve_with(limiter).await;
    while breaker.state() == BreakerState::Closed {
        let response = tokio::spawn(reqwest::get(url.clone()));
        timer.until_somebody_sleeps().await;
        timer.advance(DEADLINE);
        assert_eq!(response.await.unwrap().unwrap().status(), 200);
    }
    let waited = counts.failures.load(Ordering::Relaxed);
    assert_eq!(statuses(&url, 5).await, [200; 5]);
    assert_eq!(counts.failures.load(Ordering::Relaxed), waited + 5);
}
