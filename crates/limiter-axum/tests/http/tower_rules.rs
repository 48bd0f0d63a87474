//! What tower and axum ask of a layer.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::routing::get as on_get;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use limiter_axum::{HeaderKeyResolver, Key, KeyFn, KeyResolver, RateLimit, RateLimitLayer};
use limiter_core::{
    CheckError, Cost, Decision, DefaultRateLimiter, PlanName, RateLimiter, Receipt,
};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::harness::{Bench, get, serve, statuses};

fn same_key() -> impl KeyResolver {
    KeyFn::new("key", |_| Key::new("k").ok())
}

fn layer(bench: &Bench) -> RateLimitLayer {
    RateLimitLayer::new(bench.limiter.clone(), same_key(), RateLimit::plan("gold")).unwrap()
}

/// A service that must be polled ready before each call, and whose clones start unready, as tower allows.
struct Strict {
    ready: bool,
    readied: Arc<AtomicUsize>,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self {
            ready: false,
            readied: self.readied.clone(),
        }
    }
}

impl Service<Request<()>> for Strict {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.readied.fetch_add(1, Ordering::Relaxed);
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(self.ready, "called a service that was not polled ready");
        self.ready = false;
        std::future::ready(Ok(Response::default()))
    }
}

/// A limiter that has to wait for its store a few times, as one on a network does.
struct Waiting(Arc<DefaultRateLimiter>);

#[async_trait]
impl RateLimiter for Waiting {
    async fn check(
        &self,
        key: &Key,
        plans: &[PlanName],
        cost: Cost,
    ) -> Result<Decision, CheckError> {
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        self.0.check(key, plans, cost).await
    }

    async fn peek(
        &self,
        key: &Key,
        plans: &[PlanName],
        cost: Cost,
    ) -> Result<Decision, CheckError> {
        self.0.peek(key, plans, cost).await
    }

    async fn refund(&self, receipt: &mut Receipt, units: Cost) -> Result<Decision, CheckError> {
        tokio::task::yield_now().await;
        self.0.refund(receipt, units).await
    }

    async fn reset(&self, key: &Key, plans: &[PlanName]) -> Result<(), CheckError> {
        self.0.reset(key, plans).await
    }
}

#[tokio::test]
async fn the_service_that_was_polled_ready_is_called_after_a_wait_as_well() {
    let bench = Bench::new(&[("gold", "2/h")]);
    let limiter = Arc::new(Waiting(bench.limiter.clone()));
    let layer = RateLimitLayer::new(limiter, same_key(), RateLimit::plan("gold")).unwrap();
    let readied = Arc::new(AtomicUsize::new(0));
    let mut service = layer.layer(Strict {
        ready: false,
        readied: readied.clone(),
    });
    for expected in [200, 200, 429, 429] {
        let call = service.ready().await.unwrap().call(Request::new(()));
        assert_eq!(call.await.unwrap().status(), expected);
    }
    assert_eq!(readied.load(Ordering::Relaxed), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_the_store_changes_no_answer_over_the_wire() {
    let bench = Bench::new(&[("gold", "5/h")]);
    let limiter = Arc::new(Waiting(bench.limiter.clone()));
    let limit = RateLimit::plan("gold").refund_failures();
    let layer = RateLimitLayer::new(limiter, same_key(), limit).unwrap();
    let router = Router::new()
        .route("/", on_get(|| async { "hello" }))
        .route(
            "/broken",
            on_get(|| async { http::StatusCode::BAD_GATEWAY }),
        )
        .layer(layer);
    let url = serve(router).await;
    assert_eq!(statuses(&format!("{url}/broken"), 9).await, [502; 9]);
    let all = futures_util::future::join_all((0..20).map(|_| get(&url))).await;
    let admitted = all
        .iter()
        .filter(|response| response.status() == 200)
        .count();
    assert_eq!(admitted, 5);
}

#[tokio::test]
async fn the_service_that_was_polled_ready_is_the_one_called() {
    let bench = Bench::new(&[("gold", "2/h")]);
    let readied = Arc::new(AtomicUsize::new(0));
    let mut service = layer(&bench).layer(Strict {
        ready: false,
        readied: readied.clone(),
    });
    for expected in [200, 200, 429, 429] {
        let response = service
            .ready()
            .await
            .unwrap()
            .call(Request::new(()))
            .await
            .unwrap();
        assert_eq!(response.status(), expected);
    }
    assert_eq!(readied.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn the_error_of_the_inner_service_is_passed_on_as_it_is() {
    #[derive(Debug, PartialEq)]
    struct Own;
    let bench = Bench::new(&[("gold", "2/h")]);
    let limit = RateLimit::plan("gold").refund_failures();
    let layer = RateLimitLayer::new(bench.limiter.clone(), same_key(), limit).unwrap();
    let service = layer.layer(service_fn(|_: Request<()>| async {
        Err::<Response<Bytes>, _>(Own)
    }));
    for _ in 0..5 {
        let result = service.clone().oneshot(Request::new(())).await;
        assert_eq!(
            result.unwrap_err(),
            Own,
            "the cost of a failure was not given back"
        );
    }
}

#[tokio::test]
async fn any_tower_service_can_be_limited() {
    let bench = Bench::new(&[("gold", "1/h")]);
    let by_header = HeaderKeyResolver::new("x-api-key");
    let layer = RateLimitLayer::new(bench.limiter.clone(), by_header, RateLimit::plan("gold"));
    let service = layer
        .unwrap()
        .layer(service_fn(|request: Request<String>| async move {
            Ok::<_, Infallible>(Response::new(Bytes::from(request.into_body())))
        }));
    let request = || {
        Request::builder()
            .header("x-api-key", "k")
            .body("said".to_owned())
            .unwrap()
    };
    let first = service.clone().oneshot(request()).await.unwrap();
    assert_eq!(first.into_body(), "said");
    let second = service.oneshot(request()).await.unwrap();
    assert_eq!(second.status(), 429);
    assert!(second.into_body().starts_with(b"{\"type\""));
}

#[tokio::test]
async fn thirteen_clones_share_one_state() {
    let bench = Bench::new(&[("gold", "13/h")]);
    let layer = layer(&bench);
    let ok =
        || service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new(Bytes::new())) });
    for _ in 0..13 {
        let response = layer
            .clone()
            .layer(ok())
            .oneshot(Request::new(()))
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
    }
    let response = layer.layer(ok()).oneshot(Request::new(())).await.unwrap();
    assert_eq!(response.status(), 429);
}

#[tokio::test]
async fn requests_that_are_cancelled_stay_charged_once_and_break_nothing() {
    let bench = Bench::new(&[("gold", "3/h")]);
    let entered = Arc::new(tokio::sync::Semaphore::new(0));
    let in_handler = entered.clone();
    let hang = move || {
        let in_handler = in_handler.clone();
        async move {
            in_handler.add_permits(1);
            std::future::pending::<()>().await;
        }
    };
    let router = Router::new()
        .route("/hang", on_get(hang))
        .route("/", on_get(|| async { "hello" }))
        .layer(layer(&bench));
    let url = serve(router).await;
    for _ in 0..2 {
        let hanging = tokio::spawn(reqwest::get(format!("{url}/hang")));
        entered.acquire().await.unwrap().forget();
        hanging.abort();
        assert!(hanging.await.unwrap_err().is_cancelled());
    }
    assert_eq!(statuses(&url, 2).await, [200, 429]);
}

#[tokio::test]
async fn a_handler_that_panics_leaves_the_limit_whole() {
    async fn on_purpose() {
        panic!("on purpose");
    }
    let bench = Bench::new(&[("gold", "2/h")]);
    let router = Router::new()
        .route("/panic", on_get(on_purpose))
        .route("/", on_get(|| async { "hello" }))
        .layer(layer(&bench));
    let url = serve(router).await;
    assert!(reqwest::get(format!("{url}/panic")).await.is_err());
    assert_eq!(statuses(&url, 2).await, [200, 429]);
    bench.clock.advance(Duration::from_secs(3600));
    assert_eq!(get(&url).await.status(), 200);
}

/// The body is never looked at: a request that is turned away is answered before a byte of it arrived.
#[tokio::test]
async fn no_body_is_read_before_the_decision() {
    let bench = Bench::new(&[("gold", "1/h")]);
    let service = layer(&bench).layer(service_fn(|request: Request<Unreadable>| async move {
        let _passed_on = request.into_body();
        Ok::<_, Infallible>(Response::new(Bytes::new()))
    }));
    for expected in [200, 429] {
        let response = service
            .clone()
            .oneshot(Request::new(Unreadable))
            .await
            .unwrap();
        assert_eq!(response.status(), expected);
    }
}

/// Not even a body: the layer asks nothing of it.
struct Unreadable;
