//! Attempts when something goes wrong: the store, the caller, the handler.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::routing::post as on_post;
use bytes::Bytes;
use http::{Request, StatusCode};
use limiter_axum::{AbuseLayer, Attempt, ClientIp, Counting, HttpRequest, Key, KeyFn, Rejection};
use limiter_core::{
    AbuseDecision, AbuseFailurePolicy, AbuseGuard, AbuseLimiter, AbusePolicy, AbuseRepository,
    AbuseVerdict, Block, BreakerState, Charge, DeadlineRepository, Decision, DefaultAbuseLimiter,
    Observer, StoreError,
};
use limiter_memory::MemoryAbuseStore;
use limiter_testkit::{ManualClock, ManualTimer};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::abuse::{AbuseBench, login, post, site, statuses};
use crate::harness::{serve, text};
use crate::log::Log;

/// A store whose client refuses, or waits for ever.
enum Away {
    Refuses,
    Hangs,
}

impl Away {
    async fn answer<T>(&self) -> Result<T, StoreError> {
        match self {
            Self::Refuses => Err(StoreError::unavailable(Charge::Impossible, "refused")),
            Self::Hangs => std::future::pending().await,
        }
    }
}

#[async_trait]
impl AbuseRepository for Away {
    async fn record(&self, _: &Key, _: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        self.answer().await
    }

    async fn status(&self, _: &Key, _: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        self.answer().await
    }

    async fn forgive(&self, _: &Key, _: &AbusePolicy) -> Result<(), StoreError> {
        self.answer().await
    }

    async fn unblock(&self, _: &Key, _: &AbusePolicy) -> Result<Option<Block>, StoreError> {
        self.answer().await
    }
}

/// Hears of every attempt that was counted.
struct Heard(UnboundedSender<bool>);

impl Observer for Heard {
    fn decided(&self, _: &Decision) {}

    fn store_failed(&self, _: &StoreError) {}

    fn breaker_changed(&self, _: BreakerState) {}

    fn attempt_decided(&self, decision: &AbuseDecision) {
        let _ = self.0.send(decision.is_allowed());
    }
}

fn guard_of(limiter: DefaultAbuseLimiter) -> AbuseGuard {
    AbuseGuard::for_sign_in(Arc::new(limiter), login("login"))
}

async fn with(policy: AbuseFailurePolicy, counting: Counting) -> String {
    let limiter = DefaultAbuseLimiter::with_failure_policy(Arc::new(Away::Refuses), policy);
    let layer = AbuseLayer::builder(guard_of(limiter)).key(ClientIp::peer());
    serve(site(layer.counting(counting).build())).await
}

#[tokio::test]
async fn a_local_store_stands_in_and_goes_on_blocking() {
    for (counting, expected) in [
        (Counting::Attempts, [401, 401, 429, 429]),
        (Counting::Failures, [401, 401, 401, 429]),
    ] {
        let local = Arc::new(MemoryAbuseStore::new());
        let url = with(AbuseFailurePolicy::Fallback(local), counting).await;
        assert_eq!(statuses(&url, &["a", "b", "c", "hunter2"]).await, expected);
    }
}

#[tokio::test]
async fn failing_closed_is_503_and_failing_open_passes() {
    for counting in [Counting::Attempts, Counting::Failures] {
        let closed = with(AbuseFailurePolicy::FailClosed, counting).await;
        let response = post(&closed, "hunter2").await;
        assert_eq!(response.status(), 503);
        assert_eq!(text(response.headers(), "retry-after"), Some("1"));
        let body: serde_json::Value = response.json().await.unwrap();
        assert_eq!(body["code"], "service_unavailable");
        assert_eq!(body["context"]["retryAfter"], 1);
        assert_eq!(body["title"], "Temporary Reduced Capacity");

        let open = with(AbuseFailurePolicy::FailOpen, counting).await;
        assert_eq!(statuses(&open, &["a"; 5]).await, [401; 5]);
        // That nothing can be forgiven does not hold up a success.
        assert_eq!(statuses(&open, &["hunter2"]).await, [200]);
    }
}

#[tokio::test]
async fn a_store_that_hangs_is_answered_for_at_the_deadline() {
    const DEADLINE: Duration = Duration::from_millis(50);
    let timer = ManualTimer::new();
    let in_time = DeadlineRepository::new(Arc::new(Away::Hangs), Arc::new(timer.clone()));
    let limiter = DefaultAbuseLimiter::new(
        Arc::new(in_time.with_deadline(DEADLINE)),
        Arc::new(MemoryAbuseStore::new()),
    );
    let url = serve(site(AbuseLayer::new(guard_of(limiter), ClientIp::peer()))).await;
    let mut answers = Vec::new();
    for _ in 0..3 {
        let url = url.clone();
        let response = tokio::spawn(async move { post(&url, "a").await });
        timer.until_somebody_sleeps().await;
        assert!(!response.is_finished());
        timer.advance(DEADLINE);
        answers.push(response.await.unwrap().status().as_u16());
    }
    assert_eq!(answers, [401, 401, 429]);
}

/// A site whose handler hangs, or panics, after what it was told to say.
struct Odd {
    url: String,
    heard: UnboundedReceiver<bool>,
    entered: Arc<tokio::sync::Semaphore>,
    limiter: Arc<DefaultAbuseLimiter>,
}

impl Odd {
    async fn site(counting: Counting) -> Self {
        let (tell, heard) = unbounded_channel();
        let store = MemoryAbuseStore::builder().clock(Arc::new(ManualClock::new()));
        let store = store.build_abuse_store().unwrap();
        let limiter = DefaultAbuseLimiter::with_failure_policy(
            Arc::new(store),
            AbuseFailurePolicy::FailClosed,
        )
        .with_observer(Arc::new(Heard(tell)));
        let limiter = Arc::new(limiter);
        let guard = AbuseGuard::for_sign_in(limiter.clone(), login("login"));
        let entered = Arc::new(tokio::sync::Semaphore::new(0));
        let in_handler = entered.clone();
        let handler = move |attempt: Attempt, body: String| {
            let in_handler = in_handler.clone();
            async move {
                match body.split(' ').next() {
                    Some("failed") => attempt.failed(),
                    Some("succeeded") => attempt.succeeded(),
                    _ => {}
                }
                in_handler.add_permits(1);
                if body.ends_with("panics") {
                    on_purpose();
                }
                std::future::pending::<StatusCode>().await
            }
        };
        let layer = AbuseLayer::builder(guard).key(ClientIp::peer());
        let layer = layer.counting(counting).build();
        Self {
            url: serve(Router::new().route("/", on_post(handler).layer(layer))).await,
            heard,
            entered,
            limiter,
        }
    }

    /// Sends a request, and hangs up while its handler is at work.
    async fn hang_up(&self, body: &'static str) {
        let url = self.url.clone();
        let request = tokio::spawn(async move { post(&url, body).await });
        self.entered.acquire().await.unwrap().forget();
        request.abort();
        assert!(request.await.unwrap_err().is_cancelled());
    }

    async fn panics(&self, body: &'static str) {
        let request = reqwest::Client::new().post(&self.url).body(body);
        assert!(request.send().await.is_err());
    }

    async fn count(&self) -> u32 {
        let key = Key::new("127.0.0.1").unwrap();
        let decision = self.limiter.status(&key, &login("login")).await;
        decision.tiers()[0].count
    }

    /// Waits until nothing is counted any more.
    async fn until_forgiven(&self) {
        while self.count().await > 0 {
            tokio::task::yield_now().await;
        }
    }
}

fn on_purpose() {
    panic!("on purpose");
}

#[tokio::test]
async fn who_hangs_up_stays_counted_unless_it_was_right() {
    let mut odd = Odd::site(Counting::Attempts).await;
    odd.hang_up("").await;
    assert_eq!(odd.heard.recv().await, Some(true));
    odd.hang_up("succeeded").await;
    odd.until_forgiven().await;
    odd.hang_up("failed").await;
    odd.hang_up("").await;
    assert_eq!(odd.count().await, 2);
    assert_eq!(post(&odd.url, "").await.status(), 429);
}

#[tokio::test]
async fn who_hangs_up_before_the_answer_gets_no_free_guess() {
    let mut odd = Odd::site(Counting::Failures).await;
    odd.hang_up("").await;
    assert_eq!(odd.heard.recv().await, Some(true), "counted after the fact");
    odd.hang_up("failed").await;
    assert_eq!(odd.heard.recv().await, Some(true));
    assert_eq!(odd.count().await, 2);
    odd.hang_up("succeeded").await;
    odd.until_forgiven().await;
}

#[tokio::test]
async fn a_handler_that_panics_is_nobodys_guess() {
    let odd = Odd::site(Counting::Failures).await;
    for _ in 0..5 {
        odd.panics("panics").await;
    }
    assert_eq!(odd.count().await, 0);

    let odd = Odd::site(Counting::Attempts).await;
    odd.panics("panics").await;
    odd.panics("panics").await;
    assert_eq!(odd.count().await, 2, "it was counted before it ran");
    assert_eq!(post(&odd.url, "").await.status(), 429);
}

#[tokio::test]
async fn a_failure_that_was_told_before_a_panic_counts() {
    let mut odd = Odd::site(Counting::Failures).await;
    odd.panics("failed and then panics").await;
    assert_eq!(odd.heard.recv().await, Some(true));
    assert_eq!(odd.count().await, 1);
}

/// A service that must be polled ready before each call, and whose clones start unready, as tower allows.
struct Strict {
    ready: bool,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { ready: false }
    }
}

impl Service<Request<()>> for Strict {
    type Response = http::Response<Bytes>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(self.ready, "called a service that was not polled ready");
        self.ready = false;
        let mut response = http::Response::new(Bytes::new());
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        std::future::ready(Ok(response))
    }
}

fn same_key() -> KeyFn<impl Fn(&HttpRequest<'_>) -> Option<Key> + Send + Sync> {
    KeyFn::new("key", |_| Key::new("k").ok())
}

#[tokio::test]
async fn the_service_that_was_polled_ready_is_the_one_called() {
    let bench = AbuseBench::new();
    let layer = AbuseLayer::new(bench.guard("login"), same_key());
    let mut service = layer.layer(Strict { ready: false });
    for expected in [401, 401, 429] {
        let request = Request::post("/").body(()).unwrap();
        let call = service.ready().await.unwrap().call(request);
        assert_eq!(call.await.unwrap().status(), expected);
    }
}

#[tokio::test]
async fn an_error_of_the_inner_service_is_passed_on_and_is_undecided() {
    #[derive(Debug, PartialEq)]
    struct Own;
    let bench = AbuseBench::new();
    let layer = bench.builder().key(same_key()).counting(Counting::Failures);
    let service = layer.build().layer(service_fn(|_: Request<()>| async {
        Err::<http::Response<Bytes>, _>(Own)
    }));
    for _ in 0..5 {
        let result = service.clone().oneshot(Request::new(())).await;
        assert_eq!(result.unwrap_err(), Own);
    }
    assert_eq!(bench.count("k").await, 0);
}

#[tokio::test]
async fn grpc_callers_get_resource_exhausted() {
    let bench = AbuseBench::new();
    let layer = AbuseLayer::new(bench.guard("login"), same_key());
    let service = layer.layer(service_fn(|_: Request<()>| async {
        let wrong = http::Response::builder()
            .header("content-type", "application/grpc")
            .header("grpc-status", "16");
        Ok::<_, Infallible>(wrong.body(Bytes::new()).unwrap())
    }));
    let mut codes = Vec::new();
    for _ in 0..3 {
        let request = Request::post("/").header("content-type", "application/grpc");
        let response = service.clone().oneshot(request.body(()).unwrap());
        let response = response.await.unwrap();
        assert_eq!(response.status(), 200);
        codes.push(text(response.headers(), "grpc-status").unwrap().to_owned());
    }
    assert_eq!(codes, ["16", "16", "8"]);
}

#[tokio::test]
async fn no_key_reaches_a_log_or_a_response() {
    const SECRET: &str = "ada.lovelace";
    let log = Log::start();
    let limiter = DefaultAbuseLimiter::with_failure_policy(
        Arc::new(Away::Refuses),
        AbuseFailurePolicy::FailOpen,
    );
    let handler = |attempt: Attempt, password: String| async move {
        attempt.by(&Key::new(SECRET).unwrap()).await?;
        assert!(!format!("{attempt:?}").contains(SECRET));
        Ok::<_, Rejection>(crate::abuse::by_status(password).await)
    };
    let layer = AbuseLayer::builder(guard_of(limiter)).build();
    assert!(!format!("{layer:?}").contains(SECRET));
    let url = serve(Router::new().route("/", on_post(handler).layer(layer))).await;
    assert_eq!(statuses(&url, &["hunter2", "a"]).await, [200, 401]);

    let bench = AbuseBench::new();
    let layer = AbuseLayer::new(
        bench.guard("login"),
        KeyFn::new("name", |_| Key::new(SECRET).ok()),
    );
    let url = serve(site(layer)).await;
    assert_eq!(statuses(&url, &["a", "b"]).await, [401, 401]);
    let blocked = post(&url, "c").await;
    assert_eq!(blocked.status(), 429);
    assert!(!format!("{:?}", blocked.headers()).contains(SECRET));
    assert!(!blocked.text().await.unwrap().contains(SECRET));

    let log = log.text();
    assert!(log.contains("attempts are not forgiven"), "{log}");
    assert!(!log.contains(SECRET), "{log}");
}
