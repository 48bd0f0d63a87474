//! The first extractor that ever runs in a process finds its layer, as all later ones do. Alone in its file, and so in its process.
#![cfg(test)]
#![cfg(feature = "axum")]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake};

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
    let builder = builder.limit(RateLimit::plan("outer"));
    let quiet = builder.headers(HeaderStyle::Off).build().unwrap();
    let around = RateLimitLayer::builder(Arc::new(nobody()), ClientIp::peer());
    let around = around.build().unwrap();
    let peer = SocketAddr::from(([192, 0, 2, 1], 4711));
    Router::new()
        .route("/", get(charge_two))
        .layer(quiet)
        .layer(around)
        .layer(MockConnectInfo(peer))
}

/// A limiter without plans: who charges by the wrong layer fails.
fn nobody() -> DefaultRateLimiter {
    let no_plans = InMemoryPlanRegistry::default();
    DefaultRateLimiter::new(Arc::new(no_plans), Arc::new(MemoryStore::new()))
}

/// Counts how often a request asks to be polled.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends a request, and polls it again whenever it asks for that; returns the answer, and how often it did.
fn send(router: &Router) -> (Response, usize) {
    let mut call = pin!(router.clone().oneshot(Request::new(Body::empty())));
    let wakes = Arc::new(Wakes::default());
    let waker = wakes.clone().into();
    let mut context = Context::from_waker(&waker);
    let mut polls = 0;
    loop {
        if let Poll::Ready(Ok(response)) = call.as_mut().poll(&mut context) {
            return (response, polls);
        }
        polls += 1;
        assert_eq!(wakes.0.load(Ordering::Relaxed), polls, "it sleeps for ever");
    }
}

#[test]
fn the_first_extractor_of_a_process_asks_to_be_polled_once_more_and_finds_the_layer_around_it() {
    let router = router();
    let answers = [(); 3].map(|()| send(&router));
    let answers = answers.map(|(response, wakes)| (response.status().as_u16(), wakes));
    assert_eq!(answers, [(200, 1), (200, 0), (429, 0)]);
}
