//! How extractors find the layer that they are inside of.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::get;
use futures_util::FutureExt;
use futures_util::future::join_all;
use http::request::Parts;
use limiter_axum::{
    HeaderKeyResolver, HeaderStyle, LegacyReset, Limits, RateLimit, RateLimitLayer, Rejection,
};
use tower::buffer::Buffer;
use tower::{Layer, ServiceExt};

use crate::harness::{Bench, short, text};

fn bench() -> Bench {
    Bench::new(&[("rows", "10/h"), ("gold", "5/h")])
}

fn request_of(user: &str) -> Request {
    let peer = SocketAddr::from(([127, 0, 0, 1], 4711));
    let request = Request::builder().header("x-user", user).extension(peer);
    request.body(Body::empty()).unwrap()
}

/// Charges the handler's own plan, and lets others run before it is answered.
async fn charge(limits: Limits) -> Result<(), Rejection> {
    let _ = limits.charge(&RateLimit::plan("rows")).await?;
    tokio::task::yield_now().await;
    Ok(())
}

/// Lets others run before the handler does.
async fn let_others_run(request: Request, next: Next) -> Response {
    tokio::task::yield_now().await;
    next.run(request).await
}

fn router() -> Router {
    Router::new().route("/", get(charge))
}

/// A limiter that never waits needs no runtime: tests may poll a request just once.
#[test]
fn a_request_whose_handler_charges_is_answered_at_the_first_poll() {
    let charge = async |limits: Limits| {
        let receipt = limits.charge(&RateLimit::plan("rows")).await;
        receipt.map(drop)
    };
    let layer = RateLimitLayer::builder(bench().limiter, HeaderKeyResolver::new("x-user"));
    let router = Router::new().route("/", get(charge));
    let router = router.layer(layer.build().unwrap());
    let answer = router.oneshot(request_of("ada")).now_or_never();
    let response = answer.unwrap().unwrap();
    assert_eq!(short(response.headers(), "ratelimit"), "rows r=9 t=3240");
}

#[tokio::test]
async fn requests_that_take_turns_on_one_thread_are_charged_apart() {
    let by_user = HeaderKeyResolver::new("x-user");
    let layer = RateLimitLayer::builder(bench().limiter, by_user);
    let router = router().layer(from_fn(let_others_run));
    let router = router.layer(layer.build().unwrap());
    let users = ["ada", "bob", "ada", "eve"];
    let responses = join_all(users.map(|user| router.clone().oneshot(request_of(user)))).await;
    let told = responses.into_iter().map(|response| {
        let response = response.unwrap();
        short(response.headers(), "ratelimit")
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            "rows r=9 t=3240",
            "rows r=9 t=3240",
            "rows r=8 t=2880",
            "rows r=9 t=3240"
        ]
    );
}

/// Charges before and after what is inside, by what it finds then.
async fn charge_around(request: Request, next: Next) -> Result<Response, Rejection> {
    let (mut parts, body) = request.into_parts();
    charge_gold(&mut parts).await?;
    let (mut parts_after, ()) = Request::new(()).into_parts();
    parts_after.extensions = parts.extensions.clone();
    let response = next.run(Request::from_parts(parts, body)).await;
    charge_gold(&mut parts_after).await?;
    Ok(response)
}

async fn charge_gold(parts: &mut Parts) -> Result<(), Rejection> {
    let limits = Limits::from_request_parts(parts, &()).await?;
    limits.charge(&RateLimit::plan("gold")).await.map(drop)
}

#[tokio::test]
async fn of_several_layers_the_innermost_is_found_and_the_outer_one_again_outside_of_it() {
    let bench = bench();
    let legacy = HeaderStyle::Legacy(LegacyReset::Seconds);
    let outer = bench.builder().headers(legacy).build().unwrap();
    let inner = bench.builder().build().unwrap();
    let router = router().layer(inner).layer(from_fn(charge_around));
    let router = router.layer(outer);
    let response = router.oneshot(request_of("ada")).await.unwrap();
    assert_eq!(short(response.headers(), "ratelimit"), "rows r=9 t=3240");
    assert_eq!(text(response.headers(), "x-ratelimit-remaining"), Some("3"));
}

#[tokio::test]
async fn a_layer_is_found_through_a_buffer() {
    let layer = bench().by_ip(RateLimit::plan("gold"));
    let buffered = layer.layer(Buffer::new(router(), 1));
    let response = buffered.oneshot(request_of("ada")).await.unwrap();
    assert_eq!(
        short(response.headers(), "ratelimit"),
        "gold r=4 t=2880, rows r=9 t=3240"
    );
}

#[tokio::test]
async fn a_handler_in_a_task_of_its_own_finds_no_layer_and_says_so() {
    async fn elsewhere(request: Request, next: Next) -> Response {
        tokio::spawn(next.run(request)).await.unwrap()
    }
    let log = crate::log::Log::start();
    let layer = bench().by_ip(RateLimit::plan("gold"));
    let router = router().layer(from_fn(elsewhere)).layer(layer);
    let response = router.oneshot(request_of("ada")).await.unwrap();
    assert_eq!(response.status(), 500);
    let text = log.text();
    assert!(text.contains("in a task of its own"), "{text}");
}

#[tokio::test]
async fn a_panic_leaves_no_layer_behind() {
    async fn panics(_: Limits) {
        panic!("on purpose");
    }
    let layer = bench().by_ip(RateLimit::plan("gold"));
    let panicking = Router::new().route("/", get(panics)).layer(layer);
    let asked = AssertUnwindSafe(panicking.oneshot(request_of("ada")));
    assert!(asked.catch_unwind().await.is_err());
    let without_layer = router().oneshot(request_of("ada")).await.unwrap();
    assert_eq!(without_layer.status(), 500);
}
