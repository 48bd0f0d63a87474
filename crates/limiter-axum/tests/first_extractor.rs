//! The first extractor that ever runs in a process finds its layer, as all later ones do. Alone in its file, and so in its process.
#![cfg(all(test, feature = "axum"))]

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use axum::body::Body;
use axum::extract::connect_info::MockConnectInfo;
use axum::routing::get;
use axum::{Router, response::Response};
use http::{Request, StatusCode};
use limiter_axum::{ClientIp, HeaderStyle, Limits, RateLimit, RateLimitLayer, Rejection};
use limiter_core::{DefaultRateLimiter, InMemoryPlanRegistry, Plan};
use limiter_memory::MemoryStore;
use std::net::SocketAddr;
use tower::ServiceExt;

async fn charge_two(limits: Limits) -> Result<StatusCode, Rejection> {
    let limit = RateLimit::plan("inner").cost(2);
    limits.charge(&limit).await.map(|_| StatusCode::OK)
}

fn router() -> Router {
    let plans = [("outer", "9/h"), ("inner", "5/h")].map(|(name, limit)| Plan::new(name, limit));
    let plans = InMemoryPlanRegistry::new(plans.map(Result::unwrap)).unwrap();
    let limiter = DefaultRateLimiter::new(Arc::new(plans), Arc::new(MemoryStore::new()));
    let builder = RateLimitLayer::builder(Arc::new(limiter), ClientIp::peer());
    let outer = builder.limit(RateLimit::plan("outer"));
    let quiet = outer.headers(HeaderStyle::Off).build().unwrap();
    let peer = SocketAddr::from(([192, 0, 2, 1], 4711));
    Router::new()
        .route("/", get(charge_two))
        .layer(quiet)
        .layer(MockConnectInfo(peer))
}

/// Sends a request, and polls it until it is answered; says how often.
fn send(router: &Router) -> (Response, u32) {
    let mut call = pin!(router.clone().oneshot(Request::new(Body::empty())));
    let mut context = Context::from_waker(Waker::noop());
    for polls in 1..10 {
        if let Poll::Ready(Ok(response)) = call.as_mut().poll(&mut context) {
            return (response, polls);
        }
    }
    panic!("never answered");
}

#[test]
fn the_first_extractor_of_a_process_finds_its_layer_at_the_second_poll() {
    let router = router();
    let answers = [(); 3].map(|()| send(&router));
    let answers = answers.map(|(response, polls)| (response.status().as_u16(), polls));
    assert_eq!(answers, [(200, 2), (200, 1), (429, 1)]);
}
