//! Attempts, blocks and what forgives, through a real server and real clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::{get as on_get, post as on_post};
use futures_util::future::join_all;
use http::StatusCode;
use limiter_axum::{
    AbuseLayer, AbuseLayerBuilder, Attempt, AttemptOutcome, Challenge, ClientIp, Counting,
    HeaderKeyResolver, Key, MissingKey, Principal, PrincipalKeyResolver, Rejection,
};
use limiter_core::{
    AbuseGuard, AbuseLimiter, AbusePolicy, DefaultAbuseLimiter, Tier, hours, minutes,
};
use limiter_memory::MemoryAbuseStore;
use limiter_testkit::ManualClock;
use reqwest::Response;

use crate::harness::{serve, text};

/// An abuse limiter in memory, and the clock that it reads.
pub(crate) struct AbuseBench {
    pub(crate) clock: ManualClock,
    pub(crate) limiter: Arc<DefaultAbuseLimiter>,
}

/// The 3rd attempt in 15 minutes blocks for as long; the 6th in a day for two hours.
pub(crate) fn login(name: &str) -> AbusePolicy {
    AbusePolicy::builder(name)
        .tier(Tier::new("temp", 3, minutes(15)))
        .tier(Tier::new("long", 6, hours(24)).blocking_for(hours(26)))
        .build()
        .unwrap()
}

impl AbuseBench {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        let store = || {
            let store = MemoryAbuseStore::builder().clock(Arc::new(clock.clone()));
            Arc::new(store.build_abuse_store().unwrap())
        };
        Self {
            limiter: Arc::new(DefaultAbuseLimiter::new(store(), store())),
            clock,
        }
    }

    pub(crate) fn guard(&self, policy: &str) -> AbuseGuard {
        AbuseGuard::for_sign_in(self.limiter.clone(), login(policy))
    }

    pub(crate) fn builder(&self) -> AbuseLayerBuilder {
        AbuseLayer::builder(self.guard("login"))
    }

    /// How many attempts of `key` are in the shortest window.
    pub(crate) async fn count(&self, key: &str) -> u32 {
        let key = Key::new(key).unwrap();
        let decision = self.limiter.status(&key, &login("login")).await;
        decision.tiers()[0].count
    }
}

/// Says whether the password is right, by status.
pub(crate) async fn by_status(password: String) -> StatusCode {
    match password.as_str() {
        "hunter2" => StatusCode::OK,
        "broken" => StatusCode::BAD_GATEWAY,
        _ => StatusCode::UNAUTHORIZED,
    }
}

pub(crate) fn site(layer: AbuseLayer) -> Router {
    Router::new().route("/", on_post(by_status).layer(layer))
}

pub(crate) async fn post(url: &str, body: &str) -> Response {
    let request = reqwest::Client::new().post(url).body(body.to_owned());
    request.send().await.unwrap()
}

pub(crate) async fn statuses(url: &str, bodies: &[&str]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for body in bodies {
        statuses.push(post(url, body).await.status().as_u16());
    }
    statuses
}

#[tokio::test]
async fn the_third_attempt_is_turned_away_with_its_wait() {
    let bench = AbuseBench::new();
    let guard = bench.guard("login").naming("the password");
    let url = serve(site(AbuseLayer::new(guard, ClientIp::peer()))).await;
    assert_eq!(statuses(&url, &["a", "b"]).await, [401, 401]);
    // The right password does not help any more: it is not even looked at.
    let blocked = post(&url, "hunter2").await;
    assert_eq!(blocked.status(), 429);
    assert_eq!(text(blocked.headers(), "retry-after"), Some("900"));
    assert_eq!(text(blocked.headers(), "cache-control"), Some("no-store"));
    assert_eq!(
        text(blocked.headers(), "content-type"),
        Some("application/problem+json")
    );
    assert!(text(blocked.headers(), "ratelimit").is_none());
    let body: serde_json::Value = blocked.json().await.unwrap();
    let expected = serde_json::json!({
        "type": "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
        "title": "Abnormal Usage Detected",
        "status": 429,
        "detail": "Too many attempts for the password. Try again in 900 seconds.",
        "violated-policies": ["login"],
        "retryAfter": 900,
        "code": "too_many_attempts",
        "context": {"retryAfter": 900},
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn who_waits_as_told_is_let_in_and_not_a_moment_before() {
    let bench = AbuseBench::new();
    let url = serve(site(AbuseLayer::new(
        bench.guard("login"),
        ClientIp::peer(),
    )))
    .await;
    assert_eq!(statuses(&url, &["a", "b", "c"]).await, [401, 401, 429]);
    bench.clock.advance(Duration::from_micros(899_999_999));
    let last_moment = post(&url, "hunter2").await;
    assert_eq!(last_moment.status(), 429);
    let wait = text(last_moment.headers(), "retry-after").unwrap();
    assert_eq!(wait, "1", "a microsecond is told as a second");
    bench.clock.advance(Duration::from_secs(1));
    assert_eq!(post(&url, "hunter2").await.status(), 200);
}

#[tokio::test]
async fn a_success_forgives_what_came_before() {
    let bench = AbuseBench::new();
    let url = serve(site(AbuseLayer::new(
        bench.guard("login"),
        ClientIp::peer(),
    )))
    .await;
    for _ in 0..4 {
        assert_eq!(statuses(&url, &["a", "hunter2"]).await, [401, 200]);
        assert_eq!(bench.count("127.0.0.1").await, 0);
    }
    // What is neither forgives nothing, and was counted.
    assert_eq!(
        statuses(&url, &["broken", "broken", "broken"]).await,
        [502, 502, 429]
    );
}

#[tokio::test]
async fn no_burst_gets_past_the_threshold() {
    let bench = AbuseBench::new();
    let served = Arc::new(AtomicUsize::new(0));
    let counted = served.clone();
    let handler = move |password: String| {
        counted.fetch_add(1, Ordering::Relaxed);
        by_status(password)
    };
    let layer = AbuseLayer::new(bench.guard("login"), ClientIp::peer());
    let url = serve(Router::new().route("/", on_post(handler).layer(layer))).await;
    let all = join_all((0..40).map(|_| post(&url, "a"))).await;
    let turned_away = all.iter().filter(|response| response.status() == 429);
    assert_eq!(turned_away.count(), 38);
    assert_eq!(served.load(Ordering::Relaxed), 2);
}

/// A page of its own answers 200 whatever happens, and the handler alone knows.
async fn by_word(attempt: Attempt, password: String) -> &'static str {
    match password.as_str() {
        "hunter2" => attempt.succeeded(),
        "broken" => attempt.undecided(),
        _ => attempt.failed(),
    }
    "the page"
}

#[tokio::test]
async fn the_handlers_word_comes_before_the_status() {
    for counting in [Counting::Attempts, Counting::Failures] {
        let bench = AbuseBench::new();
        let layer = bench.builder().key(ClientIp::peer()).counting(counting);
        let url = serve(Router::new().route("/", on_post(by_word).layer(layer.build()))).await;
        assert_eq!(statuses(&url, &["a", "b"]).await, [200, 200]);
        assert_eq!(bench.count("127.0.0.1").await, 2, "{counting:?}");
        assert_eq!(
            post(&url, "hunter2").await.status(),
            match counting {
                Counting::Failures => 200,
                _ => 429,
            }
        );
    }
}

/// Takes `name&password`: the name is known here only.
async fn by_name(attempt: Attempt, form: String) -> Result<StatusCode, Rejection> {
    let (name, password) = form.split_once('&').unwrap();
    attempt
        .by(&Key::new(format!("login:{name}")).unwrap())
        .await?;
    // To ask twice is one attempt all the same.
    attempt
        .by(&Key::new(format!("login:{name}")).unwrap())
        .await?;
    Ok(by_status(password.to_owned()).await)
}

#[tokio::test]
async fn a_name_that_only_the_handler_knows_is_a_key_as_well() {
    let bench = AbuseBench::new();
    let url =
        serve(Router::new().route("/", on_post(by_name).layer(bench.builder().build()))).await;
    assert_eq!(statuses(&url, &["ada&a", "ada&b"]).await, [401, 401]);
    assert_eq!(bench.count("login:ada").await, 2);
    let blocked = post(&url, "ada&hunter2").await;
    assert_eq!(blocked.status(), 429);
    assert_eq!(text(blocked.headers(), "retry-after"), Some("900"));
    assert_eq!(
        statuses(&url, &["bob&a", "bob&hunter2"]).await,
        [401, 200],
        "another name is another key"
    );
    assert_eq!(bench.count("login:bob").await, 0, "a success forgives it");
}

#[tokio::test]
async fn address_and_name_are_counted_once_each_and_forgiven_together() {
    let bench = AbuseBench::new();
    let layer = bench.builder().key(ClientIp::peer()).build();
    let url = serve(Router::new().route("/", on_post(by_name).layer(layer))).await;
    assert_eq!(statuses(&url, &["ada&a", "bob&a"]).await, [401, 401]);
    assert_eq!(bench.count("127.0.0.1").await, 2);
    assert_eq!(bench.count("login:ada").await, 1);
    assert_eq!(post(&url, "bob&hunter2").await.status(), 429);
    bench.clock.advance(Duration::from_secs(900));
    assert_eq!(post(&url, "bob&hunter2").await.status(), 200);
    assert_eq!(bench.count("127.0.0.1").await, 0);
    assert_eq!(bench.count("login:bob").await, 0);
}

#[tokio::test]
async fn a_name_can_have_a_policy_of_its_own() {
    let bench = AbuseBench::new();
    let by_login = Arc::new(bench.guard("by-login"));
    let handler = move |attempt: Attempt, name: String| {
        let by_login = by_login.clone();
        async move {
            attempt.under(&by_login, &Key::new(name).unwrap()).await?;
            Ok::<_, Rejection>(StatusCode::UNAUTHORIZED)
        }
    };
    let url =
        serve(Router::new().route("/", on_post(handler).layer(bench.builder().build()))).await;
    // The name is an address to look at: another policy keeps it apart.
    assert_eq!(statuses(&url, &["127.0.0.1"; 3]).await, [401, 401, 429]);
    assert_eq!(bench.count("127.0.0.1").await, 0);
    let body: serde_json::Value = post(&url, "127.0.0.1").await.json().await.unwrap();
    assert_eq!(body["violated-policies"], serde_json::json!(["by-login"]));
}

#[tokio::test]
async fn counting_failures_leaves_everything_else_uncounted() {
    let bench = AbuseBench::new();
    let layer = bench.builder().counting(Counting::Failures);
    let url = serve(site(layer.key(ClientIp::peer()).build())).await;
    assert_eq!(statuses(&url, &["broken"; 9]).await, [502; 9]);
    assert_eq!(statuses(&url, &["hunter2"; 9]).await, [200; 9]);
    assert_eq!(bench.count("127.0.0.1").await, 0);
    // A status forgives nothing: any page would. The third failure is still told as what it was; the block is for who comes next.
    assert_eq!(
        statuses(&url, &["a", "hunter2", "b", "c", "hunter2"]).await,
        [401, 200, 401, 401, 429]
    );
}

#[tokio::test]
async fn counting_failures_the_handlers_word_forgives() {
    let bench = AbuseBench::new();
    let layer = bench.builder().counting(Counting::Failures);
    let layer = layer.key(ClientIp::peer()).build();
    let url = serve(Router::new().route("/", on_post(by_word).layer(layer))).await;
    statuses(&url, &["a", "b"]).await;
    assert_eq!(bench.count("127.0.0.1").await, 2);
    statuses(&url, &["hunter2"]).await;
    assert_eq!(bench.count("127.0.0.1").await, 0);
}

#[tokio::test]
async fn to_look_at_the_form_is_no_guess_and_forgives_none() {
    let bench = AbuseBench::new();
    let layer = bench.builder().key(ClientIp::peer()).build();
    let form = on_get(|| async { "name and password, please" }).post(by_status);
    let url = serve(Router::new().route("/", form.layer(layer))).await;
    for _ in 0..9 {
        assert_eq!(reqwest::get(&url).await.unwrap().status(), 200);
    }
    assert_eq!(bench.count("127.0.0.1").await, 0);
    for (guess, status) in [("a", 401), ("b", 401), ("hunter2", 429)] {
        assert_eq!(post(&url, guess).await.status(), status);
        let seen = reqwest::get(&url).await.unwrap().status();
        assert_eq!(seen, if status == 429 { 429 } else { 200 });
    }
}

#[tokio::test]
async fn hammering_a_block_counts_as_the_policy_says() {
    let bench = AbuseBench::new();
    let layer = bench.builder().counting(Counting::Failures);
    let url = serve(site(layer.key(ClientIp::peer()).build())).await;
    assert_eq!(
        statuses(&url, &["a"; 6]).await,
        [401, 401, 401, 429, 429, 429]
    );
    let blocked = post(&url, "a").await;
    let longer = (26 * 3600).to_string();
    assert_eq!(text(blocked.headers(), "retry-after"), Some(&*longer));
}

#[tokio::test]
async fn responses_are_judged_as_asked_and_nothing_is_forgiven_if_asked() {
    let bench = AbuseBench::new();
    let layer = bench
        .builder()
        .key(ClientIp::peer())
        .counting(Counting::Failures)
        .never_forgive()
        .judge(|response| match response.status {
            StatusCode::BAD_GATEWAY => AttemptOutcome::Failed,
            _ => AttemptOutcome::Succeeded,
        });
    let url = serve(site(layer.build())).await;
    assert_eq!(
        statuses(&url, &["broken", "hunter2", "a", "broken", "broken", "a"]).await,
        [502, 200, 401, 502, 502, 429]
    );
}

#[tokio::test]
async fn stacked_layers_of_one_policy_count_an_attempt_once() {
    let bench = AbuseBench::new();
    let outer = AbuseLayer::new(bench.guard("login"), ClientIp::peer());
    let inner = AbuseLayer::new(bench.guard("login"), ClientIp::peer());
    let nested = site(inner).layer(outer.clone()).layer(outer);
    let url = serve(Router::new().nest("/in", nested)).await;
    assert_eq!(post(&format!("{url}/in"), "a").await.status(), 401);
    assert_eq!(bench.count("127.0.0.1").await, 1);
    assert_eq!(
        statuses(&format!("{url}/in"), &["hunter2", "a", "b"]).await,
        [200, 401, 401]
    );
    assert_eq!(bench.count("127.0.0.1").await, 2);
}

#[tokio::test]
async fn clones_share_one_state_and_stacked_policies_each_count() {
    let bench = AbuseBench::new();
    let by_address = AbuseLayer::new(bench.guard("login"), ClientIp::peer());
    let by_header = HeaderKeyResolver::new("x-device");
    let by_device = AbuseLayer::builder(bench.guard("device"))
        .key(by_header)
        .missing_key(MissingKey::Skip)
        .build();
    let handler = || on_post(by_status).layer(by_device.clone());
    let router = Router::new().route("/", handler()).route("/too", handler());
    let url = serve(router.layer(by_address)).await;
    let client = reqwest::Client::new();
    let attempt = async |path: &str, device: &str| {
        let request = client
            .post(format!("{url}{path}"))
            .header("x-device", device);
        request.body("a").send().await.unwrap().status().as_u16()
    };
    assert_eq!(attempt("/", "phone").await, 401);
    assert_eq!(attempt("/too", "phone").await, 401);
    bench.clock.advance(Duration::from_secs(900));
    assert_eq!(
        attempt("/too", "phone").await,
        401,
        "15 minutes are over for both"
    );
    assert_eq!(bench.count("127.0.0.1").await, 1);
}

#[tokio::test]
async fn a_principal_is_a_key_and_a_missing_one_follows_the_rule() {
    let bench = AbuseBench::new();
    let by_principal = |rule| {
        let layer = bench.builder().key(PrincipalKeyResolver);
        site(layer.missing_key(rule).build())
    };
    let anonymous = [
        (MissingKey::Unauthorized, 401),
        (MissingKey::BadRequest, 400),
        (MissingKey::ServerError, 500),
        (MissingKey::Skip, 200),
    ];
    for (rule, status) in anonymous {
        let url = serve(by_principal(rule)).await;
        assert_eq!(statuses(&url, &["hunter2"; 4]).await, [status; 4]);
    }
    let url = serve(by_principal(MissingKey::Unauthorized)).await;
    let anonymous = post(&url, "a").await;
    assert_eq!(
        text(anonymous.headers(), "www-authenticate"),
        Some("Bearer")
    );
    let layer = bench.builder().key(PrincipalKeyResolver);
    let layer = layer.missing_key(MissingKey::Unauthorized);
    let layer = layer.challenge(Challenge::new("Session").unwrap());
    let anonymous = post(&serve(site(layer.build())).await, "a").await;
    assert_eq!(
        text(anonymous.headers(), "www-authenticate"),
        Some("Session")
    );
    let ada = axum::Extension(Principal::new("ada"));
    let url = serve(by_principal(MissingKey::Unauthorized).layer(ada)).await;
    assert_eq!(statuses(&url, &["a", "b", "c"]).await, [401, 401, 429]);
    assert_eq!(bench.count("ada").await, 3);
}

#[tokio::test]
async fn a_header_is_counted_under_its_hash() {
    let bench = AbuseBench::new();
    let layer = bench.builder().key(HeaderKeyResolver::new("x-device"));
    let url = serve(site(layer.build())).await;
    let request = reqwest::Client::new()
        .post(&url)
        .header("x-device", "d-4711");
    let response = request.body("a").send().await.unwrap();
    assert_eq!(response.status(), 401);
    let hash = Key::of_secret("d-4711");
    let hash = std::str::from_utf8(hash.as_bytes()).unwrap();
    assert_eq!(bench.count("d-4711").await, 0);
    assert_eq!(bench.count(hash).await, 1);
}

#[tokio::test]
async fn what_is_set_up_wrongly_says_so() {
    let log = crate::log::Log::start();
    let bench = AbuseBench::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = site(AbuseLayer::new(bench.guard("login"), ClientIp::peer()));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let no_peer = post(&url, "hunter2").await;
    assert_eq!(no_peer.status(), 500);
    assert!(log.text().contains("connect_info"));

    let no_layer = serve(Router::new().route("/", on_post(by_word))).await;
    let response = post(&no_layer, "hunter2").await;
    assert_eq!(response.status(), 500);
    assert!(log.text().contains("AbuseLayer"));
}

#[tokio::test]
async fn a_policy_in_shadow_changes_no_response() {
    let bench = AbuseBench::new();
    let policy = AbusePolicy::builder("login").tier(Tier::new("temp", 3, minutes(15)));
    let policy = policy.in_shadow().build().unwrap();
    let guard = AbuseGuard::for_sign_in(bench.limiter.clone(), policy);
    let url = serve(site(AbuseLayer::new(guard, ClientIp::peer()))).await;
    assert_eq!(statuses(&url, &["a"; 6]).await, [401; 6]);
    assert_eq!(bench.count("127.0.0.1").await, 3);
}

#[tokio::test]
async fn requests_can_be_left_alone() {
    let bench = AbuseBench::new();
    let layer = bench
        .builder()
        .key(ClientIp::peer())
        .skip_if(|request| request.headers.contains_key("x-probe"))
        .skip_preflight();
    let url = serve(Router::new().route("/", on_post(by_name).layer(layer.build()))).await;
    let client = reqwest::Client::new();
    for _ in 0..5 {
        let probe = client.post(&url).header("x-probe", "1").body("ada&a");
        assert_eq!(probe.send().await.unwrap().status(), 401);
    }
    assert_eq!(bench.count("127.0.0.1").await, 0);
    assert_eq!(bench.count("login:ada").await, 0);
}

#[tokio::test]
async fn one_hook_replaces_the_answer_and_keeps_the_wait() {
    let bench = AbuseBench::new();
    let layer = bench.builder().key(ClientIp::peer()).on_rejection(|why| {
        let refusal = why.refusal().unwrap();
        let mut response = http::Response::new(refusal.message().to_owned().into());
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        response
    });
    let url = serve(site(layer.build())).await;
    assert_eq!(statuses(&url, &["a", "b"]).await, [401, 401]);
    let blocked = post(&url, "c").await;
    assert_eq!(blocked.status(), 418);
    assert_eq!(text(blocked.headers(), "retry-after"), Some("900"));
    assert_eq!(
        blocked.text().await.unwrap(),
        "Too many attempts. Try again in 900 seconds."
    );
}
