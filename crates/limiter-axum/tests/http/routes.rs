//! Which limit a route has: tables, layers on routes, nested routers, no route at all.

use axum::Router;
use axum::routing::{get as on_get, put};
use http::Method;
use limiter_axum::{
    InvalidLayer, InvalidRateLimit, InvalidRoute, Limits, RateLimit, RouteKeyResolver, RouteRule,
};
use limiter_core::CheckError;

use crate::harness::{Bench, get, serve, short, statuses};

fn bench() -> Bench {
    Bench::new(&[("one", "1/h"), ("two", "2/h"), ("ten", "10/h")])
}

#[tokio::test]
async fn routes_have_the_limits_of_the_table_and_others_the_first_one() {
    let layer = bench()
        .builder()
        .limit(RateLimit::plan("ten"))
        .routes([
            RouteRule::new("/users/{id}", RateLimit::plan("two")),
            RouteRule::new("/users/{id}", RateLimit::plan("one")).method(Method::PUT),
            RouteRule::unlimited("/healthz"),
        ])
        .build()
        .unwrap();
    layer.verify().await.unwrap();
    let router = Router::new()
        .route(
            "/users/{id}",
            on_get(|| async { "got" }).put(|| async { "put" }),
        )
        .route("/healthz", on_get(|| async { "well" }))
        .route(
            "/other",
            put(|| async { "other" }).get(|| async { "other" }),
        )
        .layer(layer);
    let url = serve(router).await;
    assert_eq!(statuses(&format!("{url}/users/1"), 2).await, [200, 200]);
    assert_eq!(get(&format!("{url}/users/2")).await.status(), 429);
    let put = || reqwest::Client::new().put(format!("{url}/users/1")).send();
    assert_eq!(put().await.unwrap().status(), 200);
    assert_eq!(put().await.unwrap().status(), 429);
    assert_eq!(statuses(&format!("{url}/healthz"), 20).await, [200; 20]);
    let other = get(&format!("{url}/other")).await;
    assert!(short(other.headers(), "ratelimit").starts_with("ten r=9"));
}

/// What answers `GET` answers `HEAD` as well; so does its limit, of which both take.
#[tokio::test]
async fn head_is_limited_as_get_is_unless_it_has_a_row_of_its_own() {
    let row = |path: &str, plan: &str| RouteRule::new(path, RateLimit::plan(plan));
    let layer = bench().builder().routes([
        row("/get", "two").method(Method::GET),
        row("/get", "ten"),
        row("/both", "ten").method(Method::GET),
        row("/both", "one").method(Method::HEAD),
        row("/any", "ten"),
    ]);
    let hello = || on_get(|| async { "hello" });
    let router = Router::new()
        .route("/get", hello())
        .route("/both", hello())
        .route("/any", hello())
        .layer(layer.build().unwrap());
    let url = serve(router).await;
    let ask = async |method: Method, path: &str| {
        let request = reqwest::Client::new().request(method, format!("{url}{path}"));
        let response = request.send().await.unwrap();
        let left = short(response.headers(), "ratelimit");
        let left = left.split(" t=").next().unwrap_or_default().to_owned();
        (response.status().as_u16(), left)
    };
    let told = |status: u16, left: &str| (status, left.to_owned());
    assert_eq!(ask(Method::HEAD, "/get").await, told(200, "two r=1"));
    assert_eq!(ask(Method::GET, "/get").await, told(200, "two r=0"));
    assert_eq!(ask(Method::HEAD, "/get").await, told(429, "two r=0"));
    assert_eq!(ask(Method::POST, "/get").await, told(405, "ten r=9"));
    assert_eq!(ask(Method::HEAD, "/both").await, told(200, "one r=0"));
    assert_eq!(ask(Method::HEAD, "/both").await, told(429, "one r=0"));
    assert_eq!(ask(Method::HEAD, "/any").await, told(200, "ten r=8"));
}

#[tokio::test]
async fn a_layer_on_a_route_has_its_own_plan_and_cost() {
    let layer = bench().by_ip(RateLimit::plan("two"));
    let dear = layer.for_route(&RateLimit::plan("ten").cost(5)).unwrap();
    dear.verify().await.unwrap();
    let router = Router::new()
        .route("/", on_get(|| async { "cheap" }).route_layer(layer))
        .route("/dear", on_get(|| async { "dear" }).route_layer(dear));
    let url = serve(router).await;
    assert_eq!(statuses(&url, 3).await, [200, 200, 429]);
    assert_eq!(statuses(&format!("{url}/dear"), 3).await, [200, 200, 429]);
}

#[tokio::test]
async fn nested_routers_are_known_by_their_whole_template() {
    let layer = bench()
        .builder()
        .routes([RouteRule::new("/api/v1/users/{id}", RateLimit::plan("one"))])
        .build()
        .unwrap();
    let users = Router::new().route("/users/{id}", on_get(|| async { "user" }));
    for router in [
        Router::new()
            .nest("/api/v1", users.clone())
            .nest("/other", users.clone())
            .layer(layer.clone()),
        Router::new()
            .nest("/api/v1", users.clone().route_layer(layer.clone()))
            .nest("/other", users.clone().route_layer(layer)),
    ] {
        let url = serve(router).await;
        assert_eq!(statuses(&format!("{url}/other/users/1"), 3).await, [200; 3]);
    }
}

#[tokio::test]
async fn a_nested_route_is_limited_from_inside_and_outside() {
    for inside in [true, false] {
        let layer = bench()
            .builder()
            .routes([RouteRule::new("/api/v1/users/{id}", RateLimit::plan("one"))])
            .build()
            .unwrap();
        let users = Router::new().route("/users/{id}", on_get(|| async { "user" }));
        let router = if inside {
            Router::new().nest("/api/v1", users.route_layer(layer))
        } else {
            Router::new().nest("/api/v1", users).layer(layer)
        };
        let url = serve(router).await;
        assert_eq!(
            statuses(&format!("{url}/api/v1/users/1"), 2).await,
            [200, 429],
            "{inside}"
        );
    }
}

#[tokio::test]
async fn scanners_are_limited_by_a_layer_and_not_by_a_route_layer() {
    let hello = || Router::new().route("/", on_get(|| async { "hello" }));
    let everywhere = serve(hello().layer(bench().by_ip(RateLimit::plan("two")))).await;
    let scan = format!("{everywhere}/wp-admin");
    assert_eq!(statuses(&scan, 3).await, [404, 404, 429]);
    let on_routes = serve(hello().route_layer(bench().by_ip(RateLimit::plan("two")))).await;
    assert_eq!(
        statuses(&format!("{on_routes}/wp-admin"), 4).await,
        [404; 4]
    );
    assert_eq!(statuses(&on_routes, 3).await, [200, 200, 429]);
}

#[tokio::test]
async fn rows_are_read_from_configuration() {
    let rows = r#"[
        { "path": "/search", "method": "GET", "plans": ["ten"], "cost": 10, "key": "ip" },
        { "path": "/healthz", "unlimited": true }
    ]"#;
    let rows: Vec<RouteRule> = serde_json::from_str(rows).unwrap();
    let bench = bench();
    let layer = bench.builder().limit(RateLimit::plan("one")).routes(rows);
    let layer = layer
        .named_key("ip", limiter_axum::ClientIp::peer())
        .build()
        .unwrap();
    let router = Router::new()
        .route("/search", on_get(|| async { "found" }))
        .route("/healthz", on_get(|| async { "well" }))
        .layer(layer);
    let url = serve(router).await;
    assert_eq!(statuses(&format!("{url}/search"), 2).await, [200, 429]);
    assert_eq!(statuses(&format!("{url}/healthz"), 3).await, [200; 3]);
    for (bad, told) in [
        (r#"{ "path": "/x" }"#, "either plans"),
        (
            r#"{ "path": "/x", "plans": ["a"], "unlimited": true }"#,
            "either plans",
        ),
        (
            r#"{ "path": "/x", "plans": ["a"], "method": "no method" }"#,
            "method that is not allowed: write one in upper case",
        ),
        (
            r#"{ "path": "/x", "plans": ["a"], "method": "get" }"#,
            "method that is not allowed: write one in upper case",
        ),
        (
            r#"{ "path": "/x", "plans": ["a"], "price": 1 }"#,
            "unknown field `price`",
        ),
    ] {
        let error = serde_json::from_str::<RouteRule>(bad)
            .unwrap_err()
            .to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn mistakes_are_found_when_the_layer_is_built() {
    let build = |limit: RateLimit| bench().builder().limit(limit).build().unwrap_err();
    for (limit, told) in [
        (
            RateLimit::plan("9lives"),
            "plan name \"9lives\" is not allowed",
        ),
        (RateLimit::plan("one").cost(0), "cost is 0"),
        (RateLimit::plans(Vec::<String>::new()), "no plan is named"),
        (RateLimit::plans(["one", "ONE"]), "plan ONE is named twice"),
        (
            RateLimit::plans((0..17).map(|n| format!("p{n}"))),
            "17 plans are named",
        ),
        (
            RateLimit::plan("one").key("usr"),
            "no key is called \"usr\": this layer knows default",
        ),
    ] {
        let error = build(limit).to_string();
        assert!(error.contains(told), "{error}");
    }
    let second = bench().builder().named_key("default", RouteKeyResolver);
    assert_eq!(second.build().unwrap_err(), InvalidLayer::DefaultKey);
    let routes = |rows: Vec<RouteRule>| bench().builder().routes(rows).build().unwrap_err();
    let row = || RouteRule::new("/a", RateLimit::plan("one"));
    assert!(matches!(
        routes(vec![row(), row()]),
        InvalidLayer::Route(InvalidRoute::Twice { .. })
    ));
    let no_path = RouteRule::unlimited("a");
    assert!(matches!(
        routes(vec![no_path]),
        InvalidLayer::Route(InvalidRoute::Path { .. })
    ));
    for lower in ["get", "Get", "purge"] {
        let method = Method::from_bytes(lower.as_bytes()).unwrap();
        let error = routes(vec![row().method(method)]);
        assert!(
            matches!(error, InvalidLayer::Route(InvalidRoute::Method { .. })),
            "{lower}"
        );
    }
    let bad = RouteRule::new("/a", RateLimit::plan("one").cost(0));
    let InvalidLayer::Route(InvalidRoute::Limit { cause, .. }) = routes(vec![bad]) else {
        panic!("another error");
    };
    assert!(matches!(cause, InvalidRateLimit::Cost(_)));
}

#[tokio::test]
async fn verify_finds_unknown_plans_and_costs_without_spending() {
    let bench = bench();
    let unknown = bench.by_ip(RateLimit::plan("glod"));
    assert!(matches!(
        unknown.verify().await,
        Err(CheckError::UnknownPlan(_))
    ));
    let dear = bench.by_ip(RateLimit::plan("two").cost(3));
    assert!(matches!(dear.verify().await, Err(CheckError::Request(_))));
    let rows = [RouteRule::new("/a", RateLimit::plan("nothing"))];
    let table = bench.builder().routes(rows).build().unwrap();
    assert!(table.verify().await.is_err());
    bench.by_ip(RateLimit::plan("one")).verify().await.unwrap();
    assert_eq!(bench.store.stats().tracked_keys, 0);
}

#[tokio::test]
async fn verify_covers_the_layers_of_routes_however_they_were_made() {
    let is_unknown = |result| matches!(result, Err(CheckError::UnknownPlan(_)));
    let (known, unknown) = (RateLimit::plan("one"), RateLimit::plan("glod"));
    let hello = || on_get(|| async { "hello" });

    // A child of the parent, of a clone, of a child that is gone, and of a parent without a limit
    // of its own.
    let parent = bench().by_ip(known.clone());
    parent.verify().await.unwrap();
    let child = parent.for_route(&unknown).unwrap();
    assert!(is_unknown(parent.verify().await));
    assert!(is_unknown(child.verify().await));

    let parent = bench().by_ip(known.clone());
    let of_clone = parent.clone().for_route(&unknown).unwrap();
    assert!(is_unknown(parent.verify().await));
    drop(of_clone);

    let parent = bench().by_ip(known.clone());
    let of_child = parent.for_route(&known).unwrap().for_route(&unknown);
    assert!(is_unknown(parent.verify().await));
    assert!(is_unknown(parent.clone().verify().await));
    drop(of_child);

    let parent = bench().builder().build().unwrap();
    let dear = parent.for_route(&RateLimit::plan("two").cost(3)).unwrap();
    assert!(matches!(parent.verify().await, Err(CheckError::Request(_))));
    drop(dear);

    // Layers that are on routes, and no longer in anybody's hands.
    let parent = bench().by_ip(known.clone());
    let child = parent.for_route(&unknown).unwrap();
    let router: Router = Router::new().route("/", hello().route_layer(child));
    assert!(is_unknown(parent.verify().await));
    let nested = Router::new().nest("/nested", router);
    assert!(is_unknown(parent.verify().await));
    // Nothing has the limit any more: it is no mistake, and takes no memory.
    drop(nested);
    parent.verify().await.unwrap();

    // Another layer of the same limiter is not one of this layer's.
    let (bench, known) = (bench(), &known);
    let (parent, other) = (bench.by_ip(known.clone()), bench.by_ip(known.clone()));
    let of_other = other.for_route(&unknown).unwrap();
    parent.verify().await.unwrap();
    assert!(is_unknown(other.verify().await));
    drop(of_other);
    assert_eq!(bench.store.stats().tracked_keys, 0);
}

/// The operator reads what to do; who calls is not told which plans there are.
#[tokio::test]
async fn a_plan_that_is_not_there_is_named_in_the_log_and_not_to_callers() {
    let log = crate::log::Log::start();
    let layer = bench().builder().limit(RateLimit::plan("twoo"));
    let layer = layer.on_rejection(|rejection| {
        let advice = rejection.advice().unwrap();
        assert!(advice.contains("did you mean two?"), "{advice}");
        rejection.problem()
    });
    let charge = async |limits: Limits| limits.charge(&RateLimit::plan("onee")).await.map(drop);
    let inside = bench().builder().build().unwrap();
    let router = Router::new()
        .route("/inside", on_get(charge).layer(inside))
        .route(
            "/",
            on_get(|| async { "hello" }).layer(layer.build().unwrap()),
        );
    let url = serve(router).await;
    for path in ["/", "/inside"] {
        let response = get(&format!("{url}{path}")).await;
        assert_eq!(response.status(), 500);
        let body: serde_json::Value = response.json().await.unwrap();
        let told = "The service is set up wrongly; its log says how.";
        assert_eq!(body["detail"], told);
        assert_eq!(body.as_object().unwrap().len(), 4, "{body}");
    }
    for advice in [
        "No plan is called twoo: did you mean two?",
        "No plan is called onee: did you mean one?",
    ] {
        assert!(log.text().contains(advice), "{}", log.text());
    }
}
