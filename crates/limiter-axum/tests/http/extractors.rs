//! Charges inside of handlers, and the attribute.

use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router, debug_handler};
use http::StatusCode;
use limiter_axum::{
    AccessList, ClientIp, HandlerLimit, HeaderKeyResolver, Limited, Limits, RateLimit, Rejection,
    rate_limit,
};

use crate::harness::{Bench, serve, short, text};

fn bench() -> Bench {
    Bench::new(&[("rows", "10/h"), ("gold", "2/h"), ("user", "1/h")])
}

/// Each line of the body costs one unit; what starts with `undo` is given back, and `fail` fails.
async fn import(limits: Limits, body: String) -> Result<(StatusCode, String), Rejection> {
    let rows = u32::try_from(body.lines().count()).unwrap();
    let limit = RateLimit::plan("rows").cost(rows).refund_failures();
    let receipt = limits.charge(&limit).await?;
    if body.starts_with("undo") {
        receipt.refund().await.unwrap();
        receipt.refund().await.unwrap();
    }
    let status = match body.starts_with("fail") {
        true => StatusCode::INTERNAL_SERVER_ERROR,
        false => StatusCode::OK,
    };
    Ok((status, format!("{rows} rows")))
}

async fn send(url: &str, body: &'static str) -> reqwest::Response {
    reqwest::Client::new()
        .post(url)
        .body(body)
        .send()
        .await
        .unwrap()
}

#[tokio::test]
async fn a_handler_charges_what_only_it_knows() {
    let layer = bench().builder().build().unwrap();
    let url = serve(Router::new().route("/", post(import)).layer(layer)).await;
    let first = send(&url, "a\nb\nc\nd").await;
    assert_eq!(short(first.headers(), "ratelimit"), "rows r=6 t=2160");
    let denied = send(&url, "a\nb\nc\nd\ne\nf\ng").await;
    assert_eq!(denied.status(), 429);
    assert_eq!(text(denied.headers(), "retry-after"), Some("360"));
    assert_eq!(short(denied.headers(), "ratelimit"), "rows r=6 t=360");
    assert!(
        denied
            .text()
            .await
            .unwrap()
            .contains(r#""violated-policies":["rows"]"#)
    );
    // What can never pass is not told to wait.
    let never = send(&url, "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11").await;
    assert_eq!(never.status(), 400);
    assert!(text(never.headers(), "retry-after").is_none());
    let body = never.text().await.unwrap();
    assert!(body.contains("costs 11; at most 10"), "{body}");
    assert_eq!(send(&url, "a\nb\nc\nd\ne\nf").await.status(), 200);
}

#[tokio::test]
async fn costs_are_given_back_by_the_handler_or_on_failure_and_only_once() {
    let layer = bench().builder().build().unwrap();
    let url = serve(Router::new().route("/", post(import)).layer(layer)).await;
    assert_eq!(
        short(send(&url, "a\nb").await.headers(), "ratelimit"),
        "rows r=8 t=2880"
    );
    let undone = send(&url, "undo\nb\nc").await;
    assert_eq!(undone.status(), 200);
    assert_eq!(short(undone.headers(), "ratelimit"), "rows r=8 t=2880");
    let failed = send(&url, "fail\nb\nc").await;
    assert_eq!(failed.status(), 500);
    assert_eq!(short(failed.headers(), "ratelimit"), "rows r=8 t=2880");
    assert_eq!(
        short(send(&url, "a").await.headers(), "ratelimit"),
        "rows r=7 t=2520"
    );
}

#[tokio::test]
async fn a_layer_gives_back_the_cost_of_failures_if_asked_for() {
    async fn answer(body: String) -> StatusCode {
        body.parse::<u16>().unwrap().try_into().unwrap()
    }
    let layer = bench().by_ip(RateLimit::plan("gold").refund_failures());
    let url = serve(Router::new().route("/", post(answer)).layer(layer)).await;
    for status in ["500", "503", "200", "502", "404"] {
        assert_eq!(send(&url, status).await.status().as_str(), status);
    }
    assert_eq!(send(&url, "200").await.status(), 429);
}

#[tokio::test]
async fn charges_of_the_layer_and_of_the_handler_are_both_told() {
    let layer = bench().by_ip(RateLimit::plan("gold"));
    let url = serve(Router::new().route("/", post(import)).layer(layer)).await;
    let response = send(&url, "a").await;
    assert_eq!(
        short(response.headers(), "ratelimit"),
        "gold r=1 t=1800, rows r=9 t=3240"
    );
}

#[tokio::test]
async fn the_exempt_are_not_charged_inside_either() {
    let list = AccessList::new().allow_network("127.0.0.1").unwrap();
    let layer = bench().builder().access(list).build().unwrap();
    let url = serve(Router::new().route("/", post(import)).layer(layer)).await;
    for _ in 0..5 {
        let response = send(&url, "a\nb\nc\nd\ne").await;
        assert_eq!(response.status(), 200);
        assert!(response.headers().get("ratelimit").is_none());
    }
}

#[tokio::test]
async fn a_handler_can_charge_any_key() {
    async fn charge(limits: Limits, body: String) -> Result<(), Rejection> {
        let key = limiter_axum::Key::new(body).unwrap();
        let _ = limits.charge_key(key, &RateLimit::plan("user")).await?;
        Ok(())
    }
    let layer = bench().builder().build().unwrap();
    let url = serve(Router::new().route("/", post(charge)).layer(layer)).await;
    for (who, expected) in [("a", 200), ("a", 429), ("b", 200), ("b", 429)] {
        assert_eq!(send(&url, who).await.status(), expected);
    }
}

#[tokio::test]
async fn without_a_layer_an_extractor_says_what_is_missing() {
    let log = crate::log::Log::start();
    let url = serve(Router::new().route("/", post(import))).await;
    let response = send(&url, "a").await;
    assert_eq!(response.status(), 500);
    let text = log.text();
    assert!(
        text.contains("there is no RateLimitLayer around it"),
        "{text}"
    );
}

#[rate_limit(key = "user", plan = "user")]
#[rate_limit(plan = "gold")]
#[debug_handler(state = String)]
async fn greet(State(greeting): State<String>, Json(name): Json<String>) -> impl IntoResponse {
    format!("{greeting} {name}")
}

#[rate_limit(plan = "rows", plan = "gold", cost = 2, refund_failures)]
async fn fail() -> StatusCode {
    StatusCode::INTERNAL_SERVER_ERROR
}

async fn serve_attributes() -> String {
    let layer = bench()
        .builder()
        .named_key("user", HeaderKeyResolver::new("x-user"))
        .named_key("ip", ClientIp::peer());
    let router = Router::new()
        .route("/greet", post(greet))
        .route("/fail", post(fail))
        .layer(layer.build().unwrap());
    serve(router.with_state("hello".to_owned())).await
}

#[tokio::test]
async fn the_attribute_limits_before_the_body_is_read() {
    let url = format!("{}/greet", serve_attributes().await);
    let greet = |user: &'static str, body: &'static str| {
        let request = reqwest::Client::new().post(&url).header("x-user", user);
        request
            .header("content-type", "application/json")
            .body(body)
            .send()
    };
    let first = greet("alice", "\"bob\"").await.unwrap();
    assert_eq!(
        short(first.headers(), "ratelimit"),
        "user r=0 t=3600, gold r=1 t=1800"
    );
    assert_eq!(first.text().await.unwrap(), "hello bob");
    // The body is no JSON: had it been read, the answer were 400.
    assert_eq!(greet("alice", "no json").await.unwrap().status(), 429);
    assert_eq!(greet("bob", "no json").await.unwrap().status(), 400);
    // By now the address has spent its two.
    assert_eq!(greet("carol", "no json").await.unwrap().status(), 429);
    assert_eq!(send(&url, "nobody").await.status(), 400, "no key");
}

#[tokio::test]
async fn the_attribute_gives_failures_back() {
    let url = format!("{}/fail", serve_attributes().await);
    for _ in 0..8 {
        let response = send(&url, "").await;
        assert_eq!(response.status(), 500);
        assert_eq!(
            short(response.headers(), "ratelimit"),
            "rows r=10 t=3600, gold r=2 t=3600"
        );
    }
}

struct Gold;

impl HandlerLimit for Gold {
    const PLANS: &'static [&'static str] = &["gold"];
}

#[tokio::test]
async fn a_limit_can_stand_in_the_signature() {
    async fn look(limited: Limited<Gold>) -> String {
        limited.receipt().decision().unwrap().to_string()
    }
    let layer = bench().builder().build().unwrap();
    let url = serve(Router::new().route("/", post(look)).layer(layer)).await;
    let told = send(&url, "").await.text().await.unwrap();
    assert!(
        told.starts_with("allowed (store, within_limits); gold: 1 of 2 left"),
        "{told}"
    );
    assert_eq!(send(&url, "").await.status(), 200);
    assert_eq!(send(&url, "").await.status(), 429);
}
