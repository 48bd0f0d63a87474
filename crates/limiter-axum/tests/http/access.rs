//! Who is never limited, who is never let in, and what is not looked at.

use std::sync::Arc;

use axum::Router;
use axum::routing::get as on_get;
use http::Method;
use limiter_axum::{
    AccessList, ClientIp, CompositeKeyResolver, HeaderKeyResolver, Key, KeyResolver,
    PrincipalKeyResolver, RateLimit, RateLimitLayer, RateLimitLayerBuilder, RouteRule,
    TrustedProxies,
};

use crate::harness::{Bench, get, serve, statuses};

async fn serve_with(
    configure: impl FnOnce(RateLimitLayerBuilder) -> RateLimitLayerBuilder,
) -> String {
    let bench = Bench::new(&[("one", "1/h")]);
    let layer = configure(bench.builder().limit(RateLimit::plan("one")))
        .build()
        .unwrap();
    let router = Router::new()
        .route("/", on_get(|| async { "hello" }))
        .route("/healthz", on_get(|| async { "well" }))
        .layer(layer);
    serve(router).await
}

#[tokio::test]
async fn networks_are_exempt_or_denied_and_denied_comes_first() {
    let list = || AccessList::new().allow_network("127.0.0.0/8").unwrap();
    let url = serve_with(|builder| builder.access(list())).await;
    let response = get(&url).await;
    assert!(response.headers().get("ratelimit").is_none());
    assert_eq!(statuses(&url, 5).await, [200; 5]);

    let both = list().deny_network("127.0.0.1").unwrap();
    let url = serve_with(|builder| builder.access(both)).await;
    let denied = get(&url).await;
    assert_eq!(denied.status(), 403);
    assert_eq!(denied.headers()["cache-control"], "no-store");
    assert_eq!(denied.headers()["content-type"], "application/problem+json");

    let elsewhere = AccessList::new().allow_network("10.0.0.0/8").unwrap();
    let url = serve_with(|builder| builder.access(elsewhere)).await;
    assert_eq!(statuses(&url, 2).await, [200, 429]);
    assert!(AccessList::new().deny_network("here").is_err());
}

#[tokio::test]
async fn the_lists_go_by_the_client_behind_a_trusted_proxy() {
    let list = AccessList::new().deny_network("203.0.113.0/24").unwrap();
    let proxies = TrustedProxies::networks(["127.0.0.1"]).unwrap();
    let url = serve_with(|builder| {
        builder
            .access(list)
            .client_ip(ClientIp::x_forwarded_for(proxies))
    })
    .await;
    let from = |client: &'static str| {
        reqwest::Client::new()
            .get(&url)
            .header("x-forwarded-for", client)
            .send()
    };
    assert_eq!(from("203.0.113.9").await.unwrap().status(), 403);
    assert_eq!(from("198.51.100.7").await.unwrap().status(), 200);
}

#[tokio::test]
async fn keys_are_exempt_or_denied() {
    let bench = Bench::new(&[("one", "1/h")]);
    let layer = RateLimitLayer::builder(bench.limiter.clone(), HeaderKeyResolver::new("x-api-key"))
        .limit(RateLimit::plan("one"))
        .access(
            AccessList::new()
                .allow_key(Key::of_secret("ours"))
                .deny_key(Key::of_secret("leaked")),
        );
    let router = Router::new().route("/", on_get(|| async { "hello" }));
    let url = serve(router.layer(layer.build().unwrap())).await;
    for (key, expected) in [
        ("ours", [200; 3]),
        ("leaked", [403; 3]),
        ("other", [200, 429, 429]),
    ] {
        for status in expected {
            let response = reqwest::Client::new()
                .get(&url)
                .header("x-api-key", key)
                .send();
            assert_eq!(response.await.unwrap().status(), status, "{key}");
        }
    }
}

/// What a joined resolver finds is no part by itself.
#[tokio::test]
async fn a_key_behind_others_is_denied_as_it_is_stored() {
    let bench = Bench::new(&[("one", "10/h")]);
    let leaked = Key::of_secret("leaked");
    let parts: [Arc<dyn KeyResolver>; 2] = [
        Arc::new(PrincipalKeyResolver),
        Arc::new(HeaderKeyResolver::new("x-api-key")),
    ];
    let joined = CompositeKeyResolver::first_of(parts);
    for (denied, expected) in [
        (leaked.clone(), 200),
        (CompositeKeyResolver::key_of_nth(1, &leaked).unwrap(), 403),
    ] {
        let layer = RateLimitLayer::builder(bench.limiter.clone(), joined.clone())
            .limit(RateLimit::plan("one"))
            .access(AccessList::new().deny_key(denied));
        let router = Router::new().route("/", on_get(|| async { "hello" }));
        let url = serve(router.layer(layer.build().unwrap())).await;
        let client = reqwest::Client::new();
        let response = client.get(&url).header("x-api-key", "leaked").send();
        assert_eq!(response.await.unwrap().status(), expected);
    }
}

#[tokio::test]
async fn a_denied_key_is_let_in_nowhere() {
    let bench = Bench::new(&[("one", "1/h")]);
    let list = AccessList::new().allow_network("127.0.0.0/8").unwrap();
    let layer = RateLimitLayer::builder(bench.limiter.clone(), HeaderKeyResolver::new("x-api-key"))
        .limit(RateLimit::plan("one"))
        .routes([RouteRule::unlimited("/free")])
        .access(list.deny_key(Key::of_secret("leaked")))
        .build()
        .unwrap();
    let hello = || on_get(|| async { "hello" });
    let router = Router::new().route("/", hello()).route("/free", hello());
    let url = serve(router.layer(layer)).await;
    for path in ["/", "/free"] {
        let url = format!("{url}{path}");
        for (key, status) in [("leaked", 403), ("other", 200)] {
            let client = reqwest::Client::new();
            let response = client.get(&url).header("x-api-key", key).send().await;
            assert_eq!(response.unwrap().status(), status, "{key} at {path}");
        }
        assert_eq!(get(&url).await.status(), 200, "without a key at {path}");
    }
}

#[tokio::test]
async fn preflights_and_health_checks_are_skipped_if_asked_for() {
    let preflight = |url: String| async move {
        let client = reqwest::Client::new();
        let mut statuses = Vec::new();
        for _ in 0..3 {
            let request = client
                .request(Method::OPTIONS, &url)
                .header("origin", "https://example.org")
                .header("access-control-request-method", "GET");
            statuses.push(request.send().await.unwrap().status().as_u16());
        }
        statuses
    };
    let counted = serve_with(|builder| builder).await;
    assert_eq!(preflight(counted.clone()).await, [405, 429, 429]);
    let skipped = serve_with(|builder| builder.skip_preflight().skip_path("/healthz")).await;
    assert_eq!(preflight(skipped.clone()).await, [405; 3]);
    assert_eq!(statuses(&format!("{skipped}/healthz"), 3).await, [200; 3]);
    // A plain OPTIONS is no preflight.
    let plain = || {
        reqwest::Client::new()
            .request(Method::OPTIONS, &skipped)
            .send()
    };
    assert_eq!(plain().await.unwrap().status(), 405);
    assert_eq!(plain().await.unwrap().status(), 429);
    assert_eq!(get(&skipped).await.status(), 429);
}

#[tokio::test]
async fn any_condition_can_skip() {
    let url =
        serve_with(|builder| builder.skip_if(|head| head.headers.contains_key("x-internal"))).await;
    for _ in 0..3 {
        let response = reqwest::Client::new()
            .get(&url)
            .header("x-internal", "1")
            .send()
            .await;
        assert_eq!(response.unwrap().status(), 200);
    }
    assert_eq!(statuses(&url, 2).await, [200, 429]);
}
