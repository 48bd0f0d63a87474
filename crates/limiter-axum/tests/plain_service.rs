//! Layers on plain tower services, with no axum around them.
#![cfg(test)]

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use limiter_axum::{HeaderStyle, KeyFn, RateLimit, RateLimitLayer, RateLimitLayerBuilder};
use limiter_core::{
    Cost, DefaultRateLimiter, InMemoryPlanRegistry, Key, Plan, PlanName, RateLimiter,
};
use limiter_memory::MemoryStore;
use limiter_testkit::ManualClock;
use tower::{Layer, Service, ServiceExt, service_fn};

struct Bench {
    plans: Arc<InMemoryPlanRegistry>,
    limiter: Arc<DefaultRateLimiter>,
}

const ADA: &str = "ada";

impl Bench {
    fn new() -> Self {
        Self::with(&[("gold", "10/h"), ("daily", "sliding 5/24h")])
    }

    fn with(plans: &[(&str, &str)]) -> Self {
        let plan = |(name, limit): &(&str, &str)| Plan::new(*name, *limit).unwrap();
        let plans = plans.iter().map(plan);
        let plans = Arc::new(InMemoryPlanRegistry::new(plans).unwrap());
        let store = MemoryStore::builder().clock(Arc::new(ManualClock::new()));
        let store = Arc::new(store.build().unwrap());
        let limiter = Arc::new(DefaultRateLimiter::new(plans.clone(), store));
        Self { plans, limiter }
    }

    fn layer(&self, limit: RateLimit) -> RateLimitLayerBuilder {
        let everybody = KeyFn::new("nothing", |_| Key::new(ADA).ok());
        RateLimitLayer::builder(self.limiter.clone(), everybody).limit(limit)
    }

    async fn left(&self, plan: &str) -> u32 {
        let (key, plan) = (Key::new(ADA).unwrap(), [PlanName::new(plan).unwrap()]);
        let decision = self.limiter.peek(&key, &plan, Cost::ONE).await.unwrap();
        decision.plans()[0].remaining
    }
}

fn gold() -> RateLimit {
    RateLimit::plan("gold")
}

/// A service that always answers so.
fn answers(
    status: StatusCode,
) -> impl Service<Request<()>, Response = Response<Bytes>, Error = Infallible, Future: Send> + Clone
{
    service_fn(move |_| async move {
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = status;
        Ok(response)
    })
}

async fn send<S>(service: &S) -> (u16, HeaderMap)
where
    S: Service<Request<()>, Response = Response<Bytes>, Error = Infallible> + Clone,
{
    let Ok(response) = service.clone().oneshot(Request::new(())).await;
    (response.status().as_u16(), response.headers().clone())
}

#[tokio::test]
async fn a_failure_is_given_back_and_told_by_the_style() {
    for (style, told) in [
        (HeaderStyle::Off, None),
        (HeaderStyle::Draft11, Some(r#""gold";r=10;t=3600"#)),
    ] {
        let bench = Bench::new();
        let layer = bench.layer(gold().cost(4).refund_failures()).headers(style);
        let service = layer
            .build()
            .unwrap()
            .layer(answers(StatusCode::BAD_GATEWAY));
        for _ in 0..4 {
            let (status, headers) = send(&service).await;
            let told_now = headers.get("ratelimit").map(|it| it.to_str().unwrap());
            assert_eq!((status, told_now), (502, told));
            assert_eq!(bench.left("gold").await, 10);
        }
    }
}

#[tokio::test]
async fn a_success_is_kept_and_told() {
    let bench = Bench::new();
    let layer = bench.layer(gold().cost(4).refund_failures());
    let service = layer.build().unwrap().layer(answers(StatusCode::OK));
    let (status, headers) = send(&service).await;
    assert_eq!(status, 200);
    assert_eq!(headers["ratelimit"], r#""gold";r=6;t=2160"#);
    assert_eq!(bench.left("gold").await, 6);
}

#[tokio::test]
async fn an_error_of_the_service_inside_is_given_back_and_passed_on() {
    let bench = Bench::new();
    let layer = bench.layer(gold().cost(4).refund_failures());
    let broken = service_fn(|_: Request<()>| async { Err::<Response<Bytes>, _>("broken") });
    let service = layer.build().unwrap().layer(broken);
    let answer = service.oneshot(Request::new(())).await;
    assert_eq!(answer.unwrap_err(), "broken");
    assert_eq!(bench.left("gold").await, 10);
}

#[tokio::test]
async fn the_fields_of_stacked_layers_add_up() {
    let bench = Bench::new();
    let outer = bench.layer(gold()).build().unwrap();
    let inner = bench.layer(RateLimit::plan("daily")).build().unwrap();
    let service = outer.layer(inner.layer(answers(StatusCode::OK)));
    for left in (0..5).rev() {
        let (status, headers) = send(&service).await;
        assert_eq!(status, 200);
        let told = headers.get_all("ratelimit").iter();
        let told: Vec<_> = told.map(|it| it.to_str().unwrap().to_owned()).collect();
        let told = told.join(", ");
        assert!(
            told.contains(&format!(r#""gold";r={}"#, left + 5)),
            "{told}"
        );
        assert!(told.contains(&format!(r#""daily";r={left}"#)), "{told}");
    }
    assert_eq!(send(&service).await.0, 429);
}

#[tokio::test]
async fn a_plan_that_is_replaced_counts_from_the_next_request_on() {
    let bench = Bench::new();
    let layer = bench.layer(gold()).headers(HeaderStyle::Off);
    let service = layer.build().unwrap().layer(answers(StatusCode::OK));
    for _ in 0..5 {
        assert_eq!(send(&service).await.0, 200);
    }
    bench.plans.put(&Plan::new("gold", "6/h").unwrap());
    assert_eq!(send(&service).await.0, 200, "five of six are spent");
    assert_eq!(send(&service).await.0, 429);
    bench.plans.remove(&PlanName::new("gold").unwrap());
    assert_eq!(send(&service).await.0, 500, "an unknown plan");
}

#[tokio::test]
async fn a_limiter_of_one_plan_knows_no_other() {
    let bench = Bench::with(&[("gold", "10/h")]);
    // Somebody whom the store knows, and has plenty for.
    let (key, gold) = (Key::new(ADA).unwrap(), [PlanName::new("gold").unwrap()]);
    assert!(bench.limiter.check(&key, &gold, Cost::ONE).await.is_ok());
    let layer = bench.layer(RateLimit::plan("silver"));
    let layer = layer.headers(HeaderStyle::Off).build().unwrap();
    let service = layer.layer(answers(StatusCode::OK));
    assert_eq!(send(&service).await.0, 500);
    assert_eq!(bench.left("gold").await, 9);
}
