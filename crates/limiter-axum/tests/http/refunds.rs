//! What handlers charged, given back: later, by who stopped waiting, and by a store that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use axum::routing::post;
use axum::{Extension, Router};
use futures_util::FutureExt;
use http::StatusCode;
use limiter_axum::{ClientIp, HeaderStyle, Limits, RateLimit, RateLimitLayer, Receipt, Rejection};
use limiter_core::{
    Charge, CheckError, Cost, Decision, DefaultRateLimiter, Key, PlanName, RateLimiter, StoreError,
};
use tokio::sync::{Semaphore, mpsc};

use crate::harness::{Bench, serve, short};

fn bench() -> Bench {
    Bench::new(&[("rows", "10/h"), ("gold", "2/h")])
}

fn rows(cost: u32) -> RateLimit {
    RateLimit::plan("rows").cost(cost)
}

async fn send(url: &str) -> reqwest::Response {
    reqwest::Client::new().post(url).send().await.unwrap()
}

/// What is left of a plan for the client of these tests.
async fn left(bench: &Bench, plan: &str) -> u32 {
    let key = Key::new("127.0.0.1").unwrap();
    let plan = [PlanName::new(plan).unwrap()];
    let decision = bench.limiter.peek(&key, &plan, Cost::ONE).await.unwrap();
    decision.plans()[0].remaining
}

type Kept = mpsc::UnboundedSender<(Limits, Receipt)>;

/// Charges, and hands the receipt to who outlives the request.
async fn charge_and_keep(limits: Limits, kept: Extension<Kept>) -> Result<(), Rejection> {
    let receipt = limits.charge(&rows(4).refund_failures()).await?;
    kept.send((limits, receipt)).unwrap();
    Ok(())
}

/// Has a request charged and answered; returns what its handler kept.
async fn answered(bench: &Bench) -> (Limits, Receipt) {
    let (kept, mut sent) = mpsc::unbounded_channel();
    let layer = bench.builder().build().unwrap();
    let router = Router::new().route("/", post(charge_and_keep));
    let url = serve(router.layer(layer).layer(Extension(kept))).await;
    let response = send(&url).await;
    assert_eq!(short(response.headers(), "ratelimit"), "rows r=6 t=2160");
    sent.recv().await.unwrap()
}

#[tokio::test]
async fn a_failure_is_given_back_whatever_the_style() {
    for style in [HeaderStyle::Off, HeaderStyle::Draft11] {
        let bench = bench();
        let layer = bench.builder().limit(rows(4).refund_failures());
        let layer = layer.headers(style).build().unwrap();
        let fail = async || StatusCode::INTERNAL_SERVER_ERROR;
        let url = serve(Router::new().route("/", post(fail)).layer(layer)).await;
        // Somebody whom the store knows, and has plenty for.
        let (user, plans) = (
            Key::new("127.0.0.1").unwrap(),
            [PlanName::new("rows").unwrap()],
        );
        let spent = bench.limiter.check(&user, &plans, Cost::ONE).await;
        assert!(spent.unwrap().is_allowed());
        for _ in 0..4 {
            assert_eq!(send(&url).await.status(), 500);
            assert_eq!(left(&bench, "rows").await, 9);
        }
    }
}

#[tokio::test]
async fn a_failure_is_told_and_given_back_also_if_the_handler_keeps_its_limits() {
    let bench = bench();
    let (kept, mut sent) = mpsc::unbounded_channel();
    let fail = async move |limits: Limits| {
        kept.send(limits).unwrap();
        StatusCode::INTERNAL_SERVER_ERROR
    };
    let layer = bench.by_ip(rows(4).refund_failures());
    let url = serve(Router::new().route("/", post(fail)).layer(layer)).await;
    let response = send(&url).await;
    assert_eq!(response.status(), 500);
    assert!(short(response.headers(), "ratelimit").starts_with("rows r=10"));
    assert!(sent.recv().await.is_some());
    assert_eq!(left(&bench, "rows").await, 10);
}

#[tokio::test]
async fn a_receipt_gives_back_after_the_response_as_well_and_once() {
    let bench = bench();
    let (_, receipt) = answered(&bench).await;
    assert_eq!(receipt.decision().unwrap().plans()[0].remaining, 6);
    receipt.clone().refund().await.unwrap();
    assert_eq!(left(&bench, "rows").await, 10);
    assert_eq!(receipt.decision().unwrap().plans()[0].remaining, 10);
    let spent = Key::new("127.0.0.1").unwrap();
    let plan = [PlanName::new("rows").unwrap()];
    let cost = Cost::new(9).unwrap();
    assert!(bench.limiter.check(&spent, &plan, cost).await.is_ok());
    receipt.refund().await.unwrap();
    assert_eq!(left(&bench, "rows").await, 1, "given back twice");
}

#[tokio::test]
async fn an_old_receipt_never_gives_back_another_charge() {
    let bench = bench();
    let (limits, receipt) = answered(&bench).await;
    let later = limits.charge(&RateLimit::plan("gold")).await.unwrap();
    receipt.refund().await.unwrap();
    assert_eq!(left(&bench, "rows").await, 10);
    assert_eq!(left(&bench, "gold").await, 1);
    later.refund().await.unwrap();
    assert_eq!(left(&bench, "gold").await, 2);
}

/// A limiter that takes its time to give a cost back, or fails to.
struct Slow {
    inner: Arc<DefaultRateLimiter>,
    may_go_on: Semaphore,
    fails_with: Option<Charge>,
    asked: AtomicUsize,
}

impl Slow {
    fn on(bench: &Bench, fails_with: Option<Charge>) -> Arc<Self> {
        Arc::new(Self {
            inner: bench.limiter.clone(),
            may_go_on: Semaphore::new(0),
            fails_with,
            asked: AtomicUsize::new(0),
        })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl RateLimiter for Slow {
    async fn check(
        &self,
        key: &Key,
        plans: &[PlanName],
        cost: Cost,
    ) -> Result<Decision, CheckError> {
        self.inner.check(key, plans, cost).await
    }

    async fn peek(
        &self,
        key: &Key,
        plans: &[PlanName],
        cost: Cost,
    ) -> Result<Decision, CheckError> {
        self.inner.peek(key, plans, cost).await
    }

    async fn refund(
        &self,
        receipt: &mut limiter_core::Receipt,
        units: Cost,
    ) -> Result<Decision, CheckError> {
        let before = self.asked.fetch_add(1, Ordering::Relaxed);
        if let Some(charge) = self.fails_with.filter(|_| before == 0) {
            let error = StoreError::unavailable(charge, "connection reset by peer");
            return Err(CheckError::Store(error));
        }
        self.may_go_on.acquire().await.unwrap().forget();
        self.inner.refund(receipt, units).await
    }

    async fn reset(&self, key: &Key, plans: &[PlanName]) -> Result<(), CheckError> {
        self.inner.reset(key, plans).await
    }
}

/// Asks for its cost, does not wait for it, and fails.
async fn ask_leave_and_fail(
    limits: Limits,
    slow: Extension<Arc<Slow>>,
) -> Result<StatusCode, Rejection> {
    let receipt = limits.charge(&rows(4).refund_failures()).await?;
    assert!(receipt.refund().now_or_never().is_none());
    assert!(receipt.clone().refund().now_or_never().is_none());
    slow.may_go_on.add_permits(10);
    Ok(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The store may be at it already: it is not asked a second time, the first call goes on.
#[tokio::test]
async fn a_refund_that_nobody_waits_for_any_more_goes_on_when_the_request_fails() {
    let bench = bench();
    let slow = Slow::on(&bench, None);
    let layer = RateLimitLayer::builder(slow.clone(), ClientIp::peer()).build();
    let router = Router::new().route("/", post(ask_leave_and_fail));
    let router = router.layer(layer.unwrap()).layer(Extension(slow.clone()));
    let response = send(&serve(router).await).await;
    assert_eq!(response.status(), 500);
    assert_eq!(short(response.headers(), "ratelimit"), "rows r=10 t=3600");
    assert_eq!(slow.asked(), 1);
    assert_eq!(slow.may_go_on.available_permits(), 9);
}

/// Asks for its cost on a store that fails, and fails as well.
async fn ask_and_fail(limits: Limits) -> Result<StatusCode, Rejection> {
    let receipt = limits.charge(&rows(4).refund_failures()).await?;
    assert!(receipt.refund().await.is_err());
    Ok(StatusCode::INTERNAL_SERVER_ERROR)
}

#[tokio::test]
async fn a_refund_that_failed_is_asked_for_again_unless_it_may_have_been_done() {
    for (charge, asked, told) in [
        (Charge::Impossible, 2, "rows r=10 t=3600"),
        (Charge::Possible, 1, "rows r=6 t=2160"),
    ] {
        let bench = bench();
        let slow = Slow::on(&bench, Some(charge));
        slow.may_go_on.add_permits(10);
        let layer = RateLimitLayer::builder(slow.clone(), ClientIp::peer()).build();
        let router = Router::new().route("/", post(ask_and_fail));
        let response = send(&serve(router.layer(layer.unwrap())).await).await;
        assert_eq!(response.status(), 500);
        assert_eq!(short(response.headers(), "ratelimit"), told, "{charge:?}");
        assert_eq!(slow.asked(), asked, "{charge:?}");
    }
}

/// A panic is answered by nobody, and who hangs up could ask for free otherwise: neither is a failure that is given back.
#[tokio::test]
async fn what_ends_without_a_response_stays_charged() {
    async fn panic() {
        panic!("on purpose");
    }
    let bench = bench();
    let entered = Arc::new(Semaphore::new(0));
    let in_handler = entered.clone();
    let hang = move || {
        in_handler.add_permits(1);
        std::future::pending::<()>()
    };
    let router = Router::new()
        .route("/panic", post(panic))
        .route("/hang", post(hang));
    let layer = bench.by_ip(rows(4).refund_failures());
    let url = serve(router.layer(layer)).await;
    let post = |path: &str| reqwest::Client::new().post(format!("{url}{path}")).send();
    assert!(post("/panic").await.is_err());
    assert_eq!(left(&bench, "rows").await, 6);
    let hanging = tokio::spawn(post("/hang"));
    entered.acquire().await.unwrap().forget();
    hanging.abort();
    assert!(hanging.await.unwrap_err().is_cancelled());
    assert_eq!(left(&bench, "rows").await, 2);
}
