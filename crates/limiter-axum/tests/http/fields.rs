//! What responses tell: fields, bodies, statuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::response::Redirect;
use axum::routing::get as on_get;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use limiter_axum::{
    AccessList, ClientIp, EXPOSED_HEADERS, HeaderKeyResolver, HeaderStyle, Key, LegacyReset,
    Limits, MissingKey, PathParameterKeyResolver, RateLimit, RateLimitLayer, RateLimitLayerBuilder,
    RejectionReason, RouteRule,
};
use limiter_core::{BreakerState, Clock, Decision, DefaultRateLimiter, Observer, Plan, StoreError};
use limiter_memory::MemoryStore;
use limiter_testkit::ManualClock;
use proptest::prelude::*;
use tower::{Layer, ServiceExt, service_fn};

use crate::harness::{Bench, get, members, registry, serve, short, statuses, text};

fn hello(layer: RateLimitLayer) -> Router {
    Router::new()
        .route("/", on_get(|| async { "hello" }))
        .layer(layer)
}

#[tokio::test]
async fn allowed_and_denied_responses_carry_the_fields_of_draft_11() {
    let bench = Bench::new(&[("gold", "1/s burst 10")]);
    let url = serve(hello(bench.by_ip(RateLimit::plan("gold")))).await;
    for remaining in (0..10).rev() {
        let response = get(&url).await;
        assert_eq!(response.status(), 200);
        assert_eq!(
            short(response.headers(), "ratelimit-policy"),
            "gold q=10 w=10"
        );
        let t = remaining.max(1);
        assert_eq!(
            short(response.headers(), "ratelimit"),
            format!("gold r={remaining} t={t}")
        );
        assert!(text(response.headers(), "retry-after").is_none());
    }
    let denied = get(&url).await;
    assert_eq!(denied.status(), 429);
    assert_eq!(denied.headers()["ratelimit-policy"], r#""gold";q=10;w=10"#);
    assert_eq!(denied.headers()["ratelimit"], r#""gold";r=0;t=1"#);
    assert_eq!(text(denied.headers(), "retry-after"), Some("1"));
    assert_eq!(text(denied.headers(), "cache-control"), Some("no-store"));
    bench.clock.advance(Duration::from_secs(1));
    assert_eq!(statuses(&url, 2).await, [200, 429]);
}

#[tokio::test]
async fn the_denied_are_told_why_in_a_problem_body() {
    let bench = Bench::new(&[("gold", "1/2s"), ("daily", "sliding 1000/24h")]);
    let url = serve(hello(bench.by_ip(RateLimit::plans(["gold", "daily"])))).await;
    assert_eq!(get(&url).await.status(), 200);
    bench.clock.advance(Duration::from_millis(100));
    let denied = get(&url).await;
    assert_eq!(
        text(denied.headers(), "content-type"),
        Some("application/problem+json")
    );
    // 1.9 seconds to wait.
    assert_eq!(text(denied.headers(), "retry-after"), Some("2"));
    let body: serde_json::Value = denied.json().await.unwrap();
    let expected = serde_json::json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Quota Exceeded",
        "status": 429,
        "detail": "Retry in 2 seconds.",
        "violated-policies": ["gold"],
        "retryAfter": 2,
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn a_chain_shows_its_plans_and_nothing_of_those_in_shadow() {
    let bench = Bench::new(&[
        ("gold", "2/s"),
        ("daily", "fixed 100/24h"),
        ("~trial", "1/min"),
    ]);
    let plans = RateLimit::plans(["gold", "trial", "daily"]);
    let url = serve(hello(bench.by_ip(plans))).await;
    let first = get(&url).await;
    assert_eq!(
        short(first.headers(), "ratelimit-policy"),
        "gold q=2 w=1, daily q=100 w=86400"
    );
    assert_eq!(
        short(first.headers(), "ratelimit"),
        "gold r=1 t=1, daily r=99 t=86400"
    );
    let second = get(&url).await;
    assert_eq!(second.status(), 200, "a plan in shadow denied");
    let denied = get(&url).await;
    assert_eq!(denied.status(), 429);
    assert_eq!(text(denied.headers(), "retry-after"), Some("1"));
    let body = denied.text().await.unwrap();
    assert!(body.contains(r#""violated-policies":["gold"]"#), "{body}");
}

#[tokio::test]
async fn plans_in_shadow_alone_change_no_response_at_all() {
    let bench = Bench::new(&[("~trial", "1/h")]);
    let url = serve(hello(bench.by_ip(RateLimit::plan("trial")))).await;
    let bare = serve(Router::new().route("/", on_get(|| async { "hello" }))).await;
    let mut expected = get(&bare).await.headers().clone();
    expected.remove("date");
    for _ in 0..3 {
        let response = get(&url).await;
        assert_eq!(response.status(), 200);
        let mut headers = response.headers().clone();
        headers.remove("date");
        assert_eq!(headers, expected);
    }
}

#[tokio::test]
async fn a_window_that_is_no_whole_seconds_is_left_out() {
    let bench = Bench::new(&[("fast", "fixed 3/250ms"), ("odd", "fixed 3/1500ms")]);
    let url = serve(hello(bench.by_ip(RateLimit::plans(["fast", "odd"])))).await;
    let response = get(&url).await;
    assert_eq!(
        short(response.headers(), "ratelimit-policy"),
        "fast q=3, odd q=3"
    );
    assert_eq!(
        short(response.headers(), "ratelimit"),
        "fast r=2 t=1, odd r=2 t=2"
    );
}

/// The table in the README of this crate. A store that is away is in `outage`.
#[tokio::test]
async fn fields_are_told_of_what_an_enforced_plan_decided_and_of_nothing_else() {
    let bench = Bench::new(&[("gold", "fixed 1/h"), ("ten", "10/s"), ("~trial", "10/s")]);
    let with_key = |builder: RateLimitLayerBuilder| {
        let list = AccessList::new().allow_key(Key::of_secret("ours"));
        let list = list.deny_key(Key::of_secret("leaked"));
        builder.access(list).skip_path("/skipped").routes([
            RouteRule::unlimited("/unlimited"),
            RouteRule::new("/trial", RateLimit::plan("trial")),
            RouteRule::new("/unknown", RateLimit::plan("unknown")),
            RouteRule::new("/gold", RateLimit::plan("gold")),
        ])
    };
    let by_key = |rule| {
        let by_key = HeaderKeyResolver::new("x-api-key");
        let builder = RateLimitLayer::builder(bench.limiter.clone(), by_key);
        let builder = builder.limit(RateLimit::plan("ten")).missing_key(rule);
        with_key(builder).build().unwrap()
    };
    let status = async |Path(status): Path<u16>| StatusCode::from_u16(status).unwrap();
    let charge = async |limits: Limits| {
        let limit = RateLimit::plan("ten");
        limits.charge(&limit).await.map(drop)
    };
    let hello = || on_get(|| async { "hello" });
    let router = |rule| {
        let router = Router::new().route("/status/{status}", on_get(status));
        let router = router
            .route("/trial", hello())
            .route("/unknown", hello())
            .route("/gold", hello())
            .route("/unlimited", hello())
            .route("/skipped", hello());
        let router = router.route("/charge", on_get(charge));
        router.layer(by_key(rule))
    };
    let strict = serve(router(MissingKey::Unauthorized)).await;
    let lenient = serve(router(MissingKey::Skip)).await;
    let (alice, nobody) = (Some("alice"), None);
    for (url, path, key, expected, told) in [
        (&strict, "/status/200", alice, 200, Some("ten")),
        (&strict, "/status/404", alice, 404, Some("ten")),
        (&strict, "/status/500", alice, 500, Some("ten")),
        (&strict, "/nowhere", alice, 404, Some("ten")),
        (&strict, "/charge", alice, 200, Some("ten")),
        (&strict, "/gold", alice, 200, Some("gold")),
        (&strict, "/gold", alice, 429, Some("gold")),
        // A client might wait before it follows.
        (&strict, "/status/301", alice, 301, None),
        (&strict, "/status/304", alice, 304, None),
        (&strict, "/status/307", alice, 307, None),
        // A plan in shadow changes no response.
        (&strict, "/trial", alice, 200, None),
        // No plan decided.
        (&strict, "/unlimited", alice, 200, None),
        (&strict, "/skipped", alice, 200, None),
        (&strict, "/status/200", Some("ours"), 200, None),
        (&strict, "/status/200", Some("leaked"), 403, None),
        (&strict, "/status/200", Some(""), 400, None),
        (&strict, "/status/200", nobody, 401, None),
        (&lenient, "/status/200", nobody, 200, None),
        (&strict, "/unknown", alice, 500, None),
    ] {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        let mut request = client.build().unwrap().get(format!("{url}{path}"));
        if let Some(key) = key {
            request = request.header("x-api-key", key);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), expected, "{path} {key:?}");
        for field in ["ratelimit", "ratelimit-policy"] {
            let members = members(response.headers(), field);
            let plans: Vec<&str> = members.iter().map(|member| &*member.plan).collect();
            assert_eq!(plans, Vec::from_iter(told), "{path} {key:?}: {field}");
        }
    }
}

#[tokio::test]
async fn redirections_carry_no_fields() {
    let bench = Bench::new(&[("gold", "5/s")]);
    let router = Router::new().route("/", on_get(|| async { Redirect::to("/elsewhere") }));
    let url = serve(router.layer(bench.by_ip(RateLimit::plan("gold")))).await;
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let response = client.build().unwrap().get(&url).send().await.unwrap();
    assert_eq!(response.status(), 303);
    assert!(text(response.headers(), "ratelimit").is_none());
    assert!(text(response.headers(), "ratelimit-policy").is_none());
}

#[tokio::test]
async fn legacy_fields_are_of_the_plan_nearest_to_its_end() {
    let bench = Bench::new(&[("wide", "fixed 100/min"), ("narrow", "fixed 4/min")]);
    let both = HeaderStyle::Draft11AndLegacy(LegacyReset::Seconds);
    let layer = bench.builder().limit(RateLimit::plans(["wide", "narrow"]));
    let url = serve(hello(layer.headers(both).build().unwrap())).await;
    let response = get(&url).await;
    let headers = response.headers();
    assert_eq!(text(headers, "x-ratelimit-limit"), Some("4"));
    assert_eq!(text(headers, "x-ratelimit-remaining"), Some("3"));
    assert_eq!(text(headers, "x-ratelimit-reset"), Some("60"));
    assert_eq!(members(headers, "ratelimit").len(), 2);
}

#[tokio::test]
async fn legacy_resets_are_moments_if_asked_for_and_fields_can_be_off() {
    let bench = Bench::new(&[("gold", "fixed 1/min")]);
    let unix = HeaderStyle::Legacy(LegacyReset::UnixTime(Arc::new(bench.clock.clone())));
    let layer = bench.builder().limit(RateLimit::plan("gold"));
    let url = serve(hello(layer.headers(unix).build().unwrap())).await;
    let response = get(&url).await;
    let moment = bench.clock.now().as_micros() / 1_000_000 + 60;
    assert_eq!(
        text(response.headers(), "x-ratelimit-reset"),
        Some(&*moment.to_string())
    );
    assert!(text(response.headers(), "ratelimit").is_none());

    let layer = bench
        .builder()
        .limit(RateLimit::plan("gold"))
        .headers(HeaderStyle::Off);
    let url = serve(hello(layer.build().unwrap())).await;
    let denied = get(&url).await;
    assert_eq!(denied.status(), 429);
    assert_eq!(text(denied.headers(), "retry-after"), Some("60"));
    for field in EXPOSED_HEADERS.iter().filter(|name| *name != "retry-after") {
        assert!(denied.headers().get(field).is_none(), "{field}");
    }
}

/// Counts decisions.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Observer for Counter {
    fn decided(&self, _: &Decision) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn store_failed(&self, _: &StoreError) {}

    fn breaker_changed(&self, _: BreakerState) {}
}

#[tokio::test]
async fn without_fields_the_limit_is_the_same_and_observers_see_every_decision() {
    let plans = [("gold", "1/min burst 5")];
    let bench = Bench::new(&plans);
    let counter = Arc::new(Counter::default());
    let observed = DefaultRateLimiter::new(registry(&plans), Arc::new(MemoryStore::new()))
        .with_observer(counter.clone());
    let observed = RateLimitLayer::builder(Arc::new(observed), ClientIp::peer());
    for builder in [bench.builder(), observed] {
        let layer = builder
            .limit(RateLimit::plan("gold"))
            .headers(HeaderStyle::Off);
        let url = serve(hello(layer.build().unwrap())).await;
        let passed = [200; 5].into_iter().chain([429; 2]);
        assert_eq!(statuses(&url, 7).await, passed.collect::<Vec<_>>());
    }
    assert_eq!(counter.0.load(Ordering::Relaxed), 7);
}

#[tokio::test]
async fn stacked_layers_add_up_and_the_longest_wait_stays() {
    let bench = Bench::new(&[
        ("inner", "1/2s"),
        ("outer", "fixed 2/50s"),
        ("free", "100/s"),
    ]);
    let style = || HeaderStyle::Draft11AndLegacy(LegacyReset::Seconds);
    let layer = |plan: &str| {
        let builder = bench
            .builder()
            .limit(RateLimit::plan(plan))
            .headers(style());
        builder.build().unwrap()
    };
    let router = Router::new().route("/", on_get(|| async { "hello" }));
    let url = serve(
        router
            .layer(layer("inner"))
            .layer(layer("free"))
            .layer(layer("outer")),
    )
    .await;
    let first = get(&url).await;
    assert_eq!(
        short(first.headers(), "ratelimit-policy"),
        "inner q=1 w=2, free q=100 w=1, outer q=2 w=50"
    );
    assert_eq!(text(first.headers(), "x-ratelimit-remaining"), Some("0"));
    assert_eq!(text(first.headers(), "x-ratelimit-limit"), Some("1"));
    // The inner layer denies for 2 seconds; the outer one is exhausted by the same request, for 50.
    let denied = get(&url).await;
    assert_eq!(denied.status(), 429);
    assert_eq!(
        short(denied.headers(), "ratelimit"),
        "inner r=0 t=2, free r=98 t=1, outer r=0 t=50"
    );
    assert_eq!(denied.headers().get_all("retry-after").iter().count(), 1);
    assert_eq!(text(denied.headers(), "retry-after"), Some("50"));
}

/// The same plan twice, by other keys: of a name there is one member, of the key that has less left.
#[tokio::test]
async fn a_plan_that_is_charged_twice_is_told_once_and_as_it_is_tightest() {
    let bench = Bench::new(&[("gold", "fixed 5/min"), ("free", "fixed 9/min")]);
    let by_path = PathParameterKeyResolver::new("id");
    let inner = RateLimitLayer::builder(bench.limiter.clone(), by_path);
    let inner = inner.limit(RateLimit::plans(["gold", "free"])).build();
    let charge = async |limits: Limits| {
        limits
            .charge(&RateLimit::plan("free").cost(4))
            .await
            .map(drop)
    };
    let router = Router::new()
        .route("/{id}", on_get(|| async { "hello" }).post(charge))
        .route_layer(inner.unwrap())
        .route_layer(bench.by_ip(RateLimit::plan("gold")));
    let url = serve(router).await;
    let first = get(&format!("{url}/a")).await;
    let policies = "gold q=5 w=60, free q=9 w=60";
    assert_eq!(short(first.headers(), "ratelimit-policy"), policies);
    assert_eq!(
        short(first.headers(), "ratelimit"),
        "gold r=4 t=60, free r=8 t=60"
    );
    // The address has less left than the path.
    let second = get(&format!("{url}/b")).await;
    let policies = "free q=9 w=60, gold q=5 w=60";
    assert_eq!(short(second.headers(), "ratelimit-policy"), policies);
    assert_eq!(
        short(second.headers(), "ratelimit"),
        "free r=8 t=60, gold r=3 t=60"
    );
    // The layer left 8 of it, the handler 4; then there is no room for 4 more.
    let post = || reqwest::Client::new().post(format!("{url}/c")).send();
    let charged = post().await.unwrap();
    assert_eq!(
        short(charged.headers(), "ratelimit"),
        "free r=4 t=60, gold r=2 t=60"
    );
    let denied = post().await.unwrap();
    assert_eq!(denied.status(), 429);
    assert_eq!(
        short(denied.headers(), "ratelimit"),
        "free r=3 t=60, gold r=1 t=60"
    );
}

/// Whether the outer layer tells of its plan or not: who comes back after 2 seconds would be denied by it.
#[tokio::test]
async fn the_longest_wait_stays_whatever_the_style_of_the_layers() {
    let legacy = HeaderStyle::Legacy(LegacyReset::Seconds);
    for (style, outer) in [HeaderStyle::Off, HeaderStyle::Draft11, legacy]
        .into_iter()
        .flat_map(|style| ["fixed 2/50s", "1/50s burst 2"].map(|outer| (style.clone(), outer)))
    {
        // On stores of their own: a key with one plan alone is decided by the shortest way there is.
        let (bench, around) = (
            Bench::new(&[("inner", "1/2s")]),
            Bench::new(&[("outer", outer)]),
        );
        let outer = around.builder().limit(RateLimit::plan("outer"));
        let outer = outer.headers(style.clone()).build().unwrap();
        let router = hello(bench.by_ip(RateLimit::plan("inner"))).layer(outer);
        let url = serve(router).await;
        let first = get(&url).await;
        assert!(text(first.headers(), "retry-after").is_none(), "{style:?}");
        let denied = get(&url).await;
        assert_eq!(denied.status(), 429);
        assert_eq!(
            text(denied.headers(), "retry-after"),
            Some("50"),
            "{style:?}"
        );
    }
}

/// The policy is written once and kept, and written anew when it is another one.
#[tokio::test]
async fn plans_that_are_replaced_while_running_are_told_as_they_are() {
    let plans = registry(&[("gold", "fixed 10/min"), ("daily", "fixed 10/min")]);
    let store = MemoryStore::builder().clock(Arc::new(ManualClock::new()));
    let limiter = DefaultRateLimiter::new(plans.clone(), Arc::new(store.build().unwrap()));
    let limit = RateLimit::plans(["gold", "daily"]);
    let layer = RateLimitLayer::new(Arc::new(limiter), ClientIp::peer(), limit).unwrap();
    let url = serve(hello(layer)).await;
    let told = async || short(get(&url).await.headers(), "ratelimit-policy");
    let first = "gold q=10 w=60, daily q=10 w=60";
    assert_eq!([told().await, told().await], [first, first]);

    plans.put(&Plan::new("gold", "fixed 20/h").unwrap());
    let second = "gold q=20 w=3600, daily q=10 w=60";
    assert_eq!([told().await, told().await], [second, second]);

    let in_shadow = Plan::new("gold", "fixed 10/min").unwrap().in_shadow();
    plans.put(&in_shadow);
    assert_eq!(told().await, "daily q=10 w=60");
    plans.put(&Plan::new("gold", "fixed 10/min").unwrap());
    plans.put(&Plan::new("daily", "fixed 10/min").unwrap().in_shadow());
    assert_eq!(told().await, "gold q=10 w=60", "the other of two alike");

    let twice = [
        Plan::new("gold", "1/s").unwrap(),
        Plan::new("GOLD", "2/s").unwrap(),
    ];
    assert!(plans.replace_all(twice).is_err());
    assert_eq!(
        told().await,
        "gold q=10 w=60",
        "a bad change changes nothing"
    );

    for units in 30..40 {
        plans.put(&Plan::new("gold", format!("fixed {units}/min").as_str()).unwrap());
        let now = format!("gold q={units} w=60");
        assert_eq!([told().await, told().await], [now.as_str(), &now]);
    }
}

#[tokio::test]
async fn one_hook_replaces_the_answer_and_keeps_the_fields() {
    let bench = Bench::new(&[("gold", "1/h")]);
    let layer = bench
        .builder()
        .limit(RateLimit::plan("gold"))
        .on_rejection(|rejection| {
            assert_eq!(rejection.reason(), RejectionReason::LimitExceeded);
            assert_eq!(rejection.retry_after_seconds(), Some(3600));
            assert_eq!(rejection.violated_plans().collect::<Vec<_>>(), ["gold"]);
            let mut response = Response::new(Bytes::from_static(b"slow down"));
            *response.status_mut() = StatusCode::from_u16(420).unwrap();
            response
        });
    let url = serve(hello(layer.build().unwrap())).await;
    assert_eq!(get(&url).await.status(), 200);
    let denied = get(&url).await;
    assert_eq!(denied.status(), 420);
    assert_eq!(text(denied.headers(), "retry-after"), Some("3600"));
    assert_eq!(short(denied.headers(), "ratelimit"), "gold r=0 t=3600");
    assert_eq!(denied.text().await.unwrap(), "slow down");
}

/// Limits of every kind, as text.
fn any_limit() -> impl Strategy<Value = String> {
    let period = prop_oneof![
        Just("250ms"),
        Just("s"),
        Just("1500ms"),
        Just("7s"),
        Just("24h")
    ];
    let kind = prop_oneof![
        Just(""),
        Just("sliding "),
        Just("suppressing "),
        Just("fixed ")
    ];
    (kind, 1_u32..20, period).prop_map(|(kind, units, period)| format!("{kind}{units}/{period}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any chain on any path through time: the fields parse, and no wait is told too short.
    #[test]
    fn prop_fields_parse_and_retry_after_covers_what_is_exhausted(
        limits in prop::collection::vec(any_limit(), 1..4),
        steps in prop::collection::vec((0_u64..3_000_000, 1_u32..3), 1..40),
    ) {
        let names: Vec<String> = (0..limits.len()).map(|nth| format!("p{nth}")).collect();
        let plans: Vec<_> = names.iter().map(String::as_str).zip(limits.iter().map(String::as_str)).collect();
        let bench = Bench::new(&plans);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for (wait_us, cost) in steps {
            bench.clock.advance(Duration::from_micros(wait_us));
            let key = limiter_axum::KeyFn::new("key", |_| limiter_axum::Key::new("k").ok());
            let limit = RateLimit::plans(names.clone()).cost(cost);
            let layer = RateLimitLayer::new(bench.limiter.clone(), key, limit).unwrap();
            let service = layer.layer(service_fn(|_: Request<()>| async {
                Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
            }));
            let response = runtime.block_on(service.oneshot(Request::new(()))).unwrap();
            if response.status() == 500 {
                // A cost that one of the plans can never admit.
                continue;
            }
            let limits = members(response.headers(), "ratelimit");
            let policies = members(response.headers(), "ratelimit-policy");
            prop_assert_eq!(limits.len(), names.len());
            prop_assert!(policies.iter().all(|it| it.get("q") >= Some(1) && it.get("w") != Some(0)));
            prop_assert!(limits.iter().all(|it| it.get("r").is_some() && it.get("t") != Some(0)));
            if response.status() == 429 {
                let told: i64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
                for limit in limits.iter().filter(|it| it.get("r") == Some(0)) {
                    prop_assert!(limit.get("t").is_none_or(|t| t <= told), "{:?} {}", limit, told);
                }
            } else {
                prop_assert!(response.headers().get("retry-after").is_none());
            }
        }
    }
}
