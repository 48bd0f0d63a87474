//! Requests that no plan decides are counted all the same.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::routing::{get as on_get, post as on_post};
use limiter_axum::{
    AbuseLayerBuilder, AccessList, HeaderKeyResolver, Key, Limits, MissingKey,
    PathParameterKeyResolver, RateLimit, RateLimitLayer, RateLimitLayerBuilder, Rejection,
    RouteRule, Undecided,
};

use crate::abuse::{AbuseBench, by_status};
use crate::harness::{Bench, serve};

/// What a layer told, in order.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Undecided>>>);

impl Told {
    fn builder(&self, missing_key: MissingKey) -> RateLimitLayerBuilder {
        let bench = Bench::new(&[("one", "1/h")]);
        let told = self.clone();
        let by_key = HeaderKeyResolver::new("x-api-key");
        RateLimitLayer::builder(bench.limiter, by_key)
            .missing_key(missing_key)
            .limit(RateLimit::plan("one"))
            .routes([
                RouteRule::unlimited("/free"),
                RouteRule::new("/wrong", RateLimit::plan("unknown")),
            ])
            .access(
                AccessList::new()
                    .allow_key(Key::of_secret("ours"))
                    .deny_key(Key::of_secret("leaked")),
            )
            .skip_path("/healthz")
            .on_undecided(move |what| told.0.lock().unwrap().push(what))
    }

    /// A layer that counts the attempts of whoever has a key of the API.
    fn abuse_builder(&self, bench: &AbuseBench) -> AbuseLayerBuilder {
        let told = self.clone();
        bench
            .builder()
            .key(HeaderKeyResolver::new("x-api-key"))
            .skip_if(|request| request.headers.contains_key("x-probe"))
            .on_undecided(move |what| told.0.lock().unwrap().push(what))
    }

    fn take(&self) -> Vec<Undecided> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Charges more than the plan can ever admit, and then a plan that is not there.
async fn charge(limits: Limits) -> Result<(), Rejection> {
    let dear = limits.charge(&RateLimit::plan("one").cost(2)).await;
    assert_eq!(dear.unwrap_err().status(), 400);
    limits.charge(&RateLimit::plan("unknown")).await.map(|_| ())
}

async fn serve_with(layer: RateLimitLayer) -> String {
    let hello = || on_get(|| async { "hello" });
    let router = Router::new()
        .route("/", hello())
        .route("/free", hello())
        .route("/wrong", hello())
        .route("/healthz", hello())
        .route("/charge", on_get(charge));
    serve(router.layer(layer)).await
}

async fn status(url: &str, key: Option<&str>) -> u16 {
    let mut request = reqwest::Client::new().get(url);
    if let Some(key) = key {
        request = request.header("x-api-key", key);
    }
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn each_request_that_no_plan_decides_is_told_once_and_why() {
    let told = Told::default();
    let layer = told.builder(MissingKey::Unauthorized).build().unwrap();
    let url = serve_with(layer).await;
    for (path, key, expected, what) in [
        ("/healthz", None, 200, Some(Undecided::Skipped)),
        ("/", Some("ours"), 200, Some(Undecided::Allowed)),
        ("/free", Some("alice"), 200, Some(Undecided::Unlimited)),
        ("/", None, 401, Some(Undecided::NoKey)),
        ("/", Some(""), 400, Some(Undecided::NoKey)),
        ("/", Some("leaked"), 403, Some(Undecided::Forbidden)),
        ("/wrong", Some("alice"), 500, Some(Undecided::Misconfigured)),
        // What is decided, the limiter's observer sees.
        ("/", Some("alice"), 200, None),
        ("/", Some("alice"), 429, None),
    ] {
        let answer = status(&format!("{url}{path}"), key).await;
        assert_eq!(answer, expected, "{path} {key:?}");
        assert_eq!(told.take(), Vec::from_iter(what), "{path} {key:?}");
    }
    // The layer decides this one; what the handler charges then, no plan can.
    assert_eq!(status(&format!("{url}/charge"), Some("bob")).await, 500);
    let inside = [Undecided::CostTooLarge, Undecided::Misconfigured];
    assert_eq!(told.take(), inside);
}

#[tokio::test]
async fn who_passes_without_a_key_is_told_as_well() {
    let told = Told::default();
    let layer = told.builder(MissingKey::Skip).build().unwrap();
    let url = serve_with(layer).await;
    assert_eq!(status(&url, None).await, 200);
    assert_eq!(told.take(), [Undecided::PassedWithoutKey]);
}

#[tokio::test]
async fn each_request_that_no_policy_decides_is_told_once_and_why() {
    let (told, bench) = (Told::default(), AbuseBench::new());
    let by_key = || told.abuse_builder(&bench);
    let by_handler = {
        let told = told.clone();
        let layer = bench.builder();
        layer.on_undecided(move |what| told.0.lock().unwrap().push(what))
    };
    let guarded = |layer: AbuseLayerBuilder| on_post(by_status).layer(layer.build());
    let router = Router::new()
        .route("/", guarded(by_key()))
        .route("/open", guarded(by_key().missing_key(MissingKey::Skip)))
        .route("/handler", guarded(by_handler))
        .route(
            "/wrong",
            guarded(by_key().key(PathParameterKeyResolver::new("login"))),
        );
    let url = serve(router).await;
    let alice = Some(("x-api-key", "alice"));
    for (path, header, expected, what) in [
        ("/", Some(("x-probe", "1")), 401, Some(Undecided::Skipped)),
        ("/", None, 400, Some(Undecided::NoKey)),
        ("/", Some(("x-api-key", "")), 400, Some(Undecided::NoKey)),
        ("/open", None, 401, Some(Undecided::PassedWithoutKey)),
        ("/handler", alice, 401, Some(Undecided::Unlimited)),
        ("/wrong", alice, 500, Some(Undecided::Misconfigured)),
        // What is decided, the limiter's observer sees.
        ("/", alice, 401, None),
        ("/", alice, 401, None),
        ("/", alice, 429, None),
    ] {
        let mut request = reqwest::Client::new().post(format!("{url}{path}"));
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let status = request.send().await.unwrap().status();
        assert_eq!(status, expected, "{path} {header:?}");
        assert_eq!(told.take(), Vec::from_iter(what), "{path} {header:?}");
    }
}

#[test]
fn names_are_those_of_metrics_and_each_is_one_of_all() {
    let names: Vec<&str> = Undecided::ALL.iter().map(|what| what.as_str()).collect();
    let expected = [
        "skipped",
        "allowed",
        "unlimited",
        "passed_without_key",
        "no_key",
        "forbidden",
        "cost_too_large",
        "misconfigured",
    ];
    assert_eq!(names, expected);
}
