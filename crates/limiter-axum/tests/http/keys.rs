//! Who is limited, and what becomes of requests that do not say.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::get as on_get;
use bytes::Bytes;
use limiter_axum::{
    Challenge, ClientIp, CompositeKeyResolver, EXPOSED_HEADERS, HeaderKeyResolver, HmacKeyResolver,
    HmacSecret, HttpRequest, Key, KeyFn, KeyResolver, Limits, MissingKey, PathParameterKeyResolver,
    Principal, PrincipalKeyResolver, RateLimit, RateLimitLayer, RouteKeyResolver, RouteRule,
};
use limiter_core::{Cost, PlanName, RateLimiter, UnresolvedKey};
use tower::ServiceExt;

use crate::harness::{Bench, get, serve, statuses};

fn layer(bench: &Bench, key: impl KeyResolver + 'static, missing: MissingKey) -> RateLimitLayer {
    let builder = RateLimitLayer::builder(bench.limiter.clone(), key);
    builder
        .limit(RateLimit::plan("one"))
        .missing_key(missing)
        .build()
        .unwrap()
}

fn one() -> Bench {
    Bench::new(&[("one", "1/h")])
}

fn hello(layer: RateLimitLayer) -> Router {
    Router::new()
        .route("/", on_get(|| async { "hello" }))
        .layer(layer)
}

async fn status(url: &str, headers: &[(&str, &str)]) -> u16 {
    let request = reqwest::Client::new().get(url);
    let request = headers.iter().fold(request, |request, (name, value)| {
        request.header(*name, *value)
    });
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn each_header_value_has_its_own_limit() {
    let bench = one();
    let by_api_key = layer(
        &bench,
        HeaderKeyResolver::new("x-api-key"),
        MissingKey::Unauthorized,
    );
    let url = serve(hello(by_api_key)).await;
    assert_eq!(status(&url, &[("x-api-key", "a")]).await, 200);
    assert_eq!(status(&url, &[("x-api-key", "a")]).await, 429);
    assert_eq!(status(&url, &[("X-Api-Key", "b")]).await, 200);
}

#[tokio::test]
async fn a_missing_key_follows_the_rule_and_is_never_shared() {
    for (rule, expected) in [
        (MissingKey::BadRequest, 400),
        (MissingKey::Unauthorized, 401),
        (MissingKey::ServerError, 500),
        (MissingKey::Skip, 200),
    ] {
        let bench = one();
        let url = serve(hello(layer(
            &bench,
            HeaderKeyResolver::new("x-api-key"),
            rule,
        )))
        .await;
        assert_eq!(statuses(&url, 3).await, [expected; 3], "{rule:?}");
        assert_eq!(
            bench.store.stats().tracked_keys,
            0,
            "{rule:?}: a bucket was shared"
        );
        // Garbling the key is no way out of the limit.
        let two_lines = [("x-api-key", "a"), ("x-api-key", "b")];
        assert_eq!(status(&url, &two_lines).await, 400, "{rule:?}");
        assert_eq!(status(&url, &[("x-api-key", "")]).await, 400, "{rule:?}");
        let long = "x".repeat(256);
        for expected in [200, 429] {
            let answer = status(&url, &[("x-api-key", &long)]).await;
            assert_eq!(answer, expected, "{rule:?}");
        }
        let readable = HeaderKeyResolver::new("x-api-key").readable();
        let url = serve(hello(layer(&one(), readable, rule))).await;
        for wrong in [&*long, ""] {
            let answer = status(&url, &[("x-api-key", wrong)]).await;
            assert_eq!(answer, 400, "{rule:?}");
        }
        let secret = HmacSecret::new([7; 32]).unwrap();
        let hashed = HmacKeyResolver::of_header("x-api-key", &secret);
        let url = serve(hello(layer(&one(), hashed, rule))).await;
        assert_eq!(status(&url, &[("x-api-key", "")]).await, 400, "{rule:?}");
    }
}

#[tokio::test]
async fn a_missing_key_is_named_in_the_answer() {
    let by_api_key = layer(
        &one(),
        HeaderKeyResolver::new("X-Api-Key"),
        MissingKey::BadRequest,
    );
    let response = get(&serve(hello(by_api_key)).await).await;
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert!(response.headers().get("retry-after").is_none());
    let body: serde_json::Value = response.json().await.unwrap();
    assert_eq!(body["type"], "about:blank");
    assert_eq!(body["title"], "Bad Request");
    let detail = "Request has no header X-Api-Key, which its rate limit goes by.";
    assert_eq!(body["detail"], detail);
}

/// A router that is served without connect info knows no peer: that is loud, and nobody shares a key.
#[tokio::test]
async fn missing_connect_info_is_a_loud_error() {
    let log = crate::log::Log::start();
    let bench = one();
    let router = hello(layer(&bench, ClientIp::peer(), MissingKey::Skip));
    let request = Request::new(axum::body::Body::empty());
    let response = router.oneshot(request).await.unwrap();
    assert_eq!(response.status(), 500);
    let text = log.text();
    assert!(
        text.contains("into_make_service_with_connect_info"),
        "{text}"
    );
    assert_eq!(bench.store.stats().tracked_keys, 0);
}

#[tokio::test]
async fn the_principal_of_whoever_authenticated_is_the_key() {
    async fn authenticate(mut request: Request, next: Next) -> Response {
        let user = request
            .headers()
            .get("x-user")
            .map(|user| user.to_str().unwrap().to_owned());
        if let Some(user) = user {
            request.extensions_mut().insert(Principal::new(user));
        }
        next.run(request).await
    }
    let by_user = layer(&one(), PrincipalKeyResolver, MissingKey::Unauthorized);
    let url = serve(hello(by_user).layer(from_fn(authenticate))).await;
    assert_eq!(status(&url, &[("x-user", "alice")]).await, 200);
    assert_eq!(status(&url, &[("x-user", "alice")]).await, 429);
    assert_eq!(status(&url, &[("x-user", "bob")]).await, 200);
    assert_eq!(status(&url, &[]).await, 401);
    assert_eq!(
        format!("{:?}", Principal::new("alice")),
        "Principal(5 bytes)"
    );
}

#[tokio::test]
async fn a_path_parameter_is_one_key_however_it_is_encoded_and_nested() {
    let log = crate::log::Log::start();
    let by_tenant = layer(
        &one(),
        PathParameterKeyResolver::new("tenant"),
        MissingKey::BadRequest,
    );
    let inner = Router::new()
        .route("/{tenant}/users/{user}", on_get(|| async { "hello" }))
        .route("/none", on_get(|| async { "hello" }))
        .route_layer(by_tenant);
    let url = serve(Router::new().nest("/api", inner)).await;
    assert_eq!(get(&format!("{url}/api/acme/users/1")).await.status(), 200);
    assert_eq!(get(&format!("{url}/api/acme/users/2")).await.status(), 429);
    assert_eq!(
        get(&format!("{url}/api/%61cme/users/2")).await.status(),
        429
    );
    assert_eq!(get(&format!("{url}/api/other/users/1")).await.status(), 200);
    let none = get(&format!("{url}/api/none")).await;
    assert_eq!(none.status(), 500);
    assert!(log.text().contains("path parameter tenant"));
}

#[tokio::test]
async fn address_and_route_together_make_a_key() {
    let parts: [Arc<dyn KeyResolver>; 2] = [Arc::new(ClientIp::peer()), Arc::new(RouteKeyResolver)];
    let both = layer(
        &one(),
        CompositeKeyResolver::all_of(parts),
        MissingKey::Skip,
    );
    let router = Router::new()
        .route("/a/{id}", on_get(|| async { "a" }))
        .route("/b", on_get(|| async { "b" }))
        .layer(both);
    let url = serve(router).await;
    assert_eq!(get(&format!("{url}/a/1")).await.status(), 200);
    assert_eq!(
        get(&format!("{url}/a/2")).await.status(),
        429,
        "the raw path is no key"
    );
    assert_eq!(get(&format!("{url}/b")).await.status(), 200);
}

#[tokio::test]
async fn a_closure_sees_the_whole_head() {
    let by_query = KeyFn::new("query", |head| {
        head.uri.query().and_then(|query| Key::new(query).ok())
    });
    let url = serve(hello(layer(&one(), by_query, MissingKey::BadRequest))).await;
    assert_eq!(get(&format!("{url}/?a")).await.status(), 200);
    assert_eq!(get(&format!("{url}/?a")).await.status(), 429);
    assert_eq!(get(&format!("{url}/?b")).await.status(), 200);
    assert_eq!(get(&url).await.status(), 400);
}

#[test]
fn hashed_keys_hide_what_they_were_made_of() {
    let secret = HmacSecret::new([7; 32]).unwrap();
    let token = "t".repeat(4000);
    let key = |secret: &HmacSecret, token: &str| {
        let request = http::Request::builder()
            .header("authorization", token)
            .body(())
            .unwrap();
        let (parts, ()) = request.into_parts();
        HmacKeyResolver::of_header("authorization", secret)
            .resolve(&HttpRequest::new(&parts))
            .unwrap()
    };
    let hashed = key(&secret, &token);
    assert_eq!(hashed.as_bytes().len(), 32);
    assert!(hashed.as_bytes().iter().all(u8::is_ascii_hexdigit));
    assert_eq!(key(&secret, &token), hashed);
    assert_ne!(key(&secret, "other"), hashed);
    assert_ne!(key(&HmacSecret::new([8; 32]).unwrap(), &token), hashed);
    assert_eq!(HmacSecret::new(b"Jefe").unwrap_err().len, 4);
    assert_eq!(format!("{secret:?}"), "HmacSecret(hidden)");
}

/// Answers of RFC 4231 (cases 1 and 3), and of Python's `hmac` for an address: the first 16 bytes of each.
#[test]
fn hashed_keys_are_hmac_sha_256() {
    let (mut head, ()) = http::Request::new(()).into_parts();
    let peer = std::net::SocketAddr::from(([203, 0, 113, 9], 4711));
    head.extensions.insert(peer);
    head.headers.insert("x-key", "Hi There".parse().unwrap());
    let bytes = |bytes: Vec<u8>| KeyFn::new("bytes", move |_| Key::new(&bytes).ok());
    let secret = |secret: &[u8]| HmacSecret::new(secret).unwrap();
    for (resolver, expected) in [
        (
            HmacKeyResolver::of(bytes(b"Hi There".to_vec()), &secret(&[0x0b; 20])),
            "b0344c61d8db38535ca8afceaf0bf12b",
        ),
        (
            HmacKeyResolver::of_header("x-key", &secret(&[0x0b; 20])),
            "b0344c61d8db38535ca8afceaf0bf12b",
        ),
        (
            HmacKeyResolver::of(bytes(vec![0xdd; 50]), &secret(&[0xaa; 20])),
            "773ea91e36800e46854db8ebd09181a7",
        ),
        (
            HmacKeyResolver::of(
                ClientIp::peer(),
                &secret(b"32 random bytes from your vault!"),
            ),
            "a14ddaffc5b318203d897f39c03ed94e",
        ),
    ] {
        let key = resolver.resolve(&HttpRequest::new(&head)).unwrap();
        assert_eq!(key.as_bytes(), expected.as_bytes());
    }
    let nobody = HmacKeyResolver::of(HeaderKeyResolver::new("x-none"), &secret(&[7; 32]));
    let error = nobody.resolve(&HttpRequest::new(&head)).unwrap_err();
    assert!(matches!(error, UnresolvedKey::Missing { .. }));
}

/// What a caller sends as a secret is kept in no store, in none of its backups and in no list of
/// its keys.
#[tokio::test]
async fn a_secret_is_stored_as_its_hash_and_only_what_is_told_to_be_readable_as_it_is() {
    const SECRET: &str = "sk-live-4711";
    let plain = Key::new(SECRET).unwrap();
    let header = || HeaderKeyResolver::new("x-api-key");
    let mac = HmacSecret::new([7; 32]).unwrap();
    let first = |resolver: HeaderKeyResolver| {
        let parts: [Arc<dyn KeyResolver>; 2] = [Arc::new(PrincipalKeyResolver), Arc::new(resolver)];
        CompositeKeyResolver::first_of(parts)
    };
    // The second of the resolvers found it.
    let second = |key: &Key| CompositeKeyResolver::key_of_nth(1, key).unwrap();
    let in_path = || PathParameterKeyResolver::new("id");
    let cases: [(Arc<dyn KeyResolver>, Key); 8] = [
        (Arc::new(header()), Key::of_secret(SECRET)),
        (Arc::new(header().readable()), plain.clone()),
        (Arc::new(first(header())), second(&Key::of_secret(SECRET))),
        (Arc::new(first(header().readable())), second(&plain)),
        (
            Arc::new(HmacKeyResolver::of_header("x-api-key", &mac)),
            mac.key_of(SECRET),
        ),
        (
            Arc::new(HmacKeyResolver::of(header(), &mac)),
            mac.key_of(Key::of_secret(SECRET).as_bytes()),
        ),
        (Arc::new(in_path().hashed()), Key::of_secret(SECRET)),
        (Arc::new(in_path()), plain.clone()),
    ];
    for (nth, (resolver, stored)) in cases.into_iter().enumerate() {
        let bench = one();
        let by_key = layer(&bench, resolver, MissingKey::BadRequest);
        let hello = Router::new().route("/{id}", on_get(|| async { "hello" }));
        let url = serve(hello.route_layer(by_key)).await;
        let url = format!("{url}/{SECRET}");
        let answer = status(&url, &[("x-api-key", SECRET)]).await;
        assert_eq!(answer, 200, "case {nth}");
        assert_eq!(left_of(&bench, &stored).await, 0, "case {nth}");
        let left = u32::from(stored != plain);
        assert_eq!(left_of(&bench, &plain).await, left, "case {nth}");
    }
}

/// What is left for `key` of the one that there is.
async fn left_of(bench: &Bench, key: &Key) -> u32 {
    let plans = [PlanName::new("one").unwrap()];
    let decision = bench.limiter.peek(key, &plans, Cost::ONE).await.unwrap();
    decision.plans()[0].remaining
}

/// RFC 9110, section 15.5.2: a 401 has a challenge.
#[tokio::test]
async fn a_401_asks_for_what_the_key_is_made_of() {
    const API_KEY: &str = "ApiKey header=\"x-api-key\"";
    let mac = HmacSecret::new([7; 32]).unwrap();
    let header = || HeaderKeyResolver::new("x-api-key");
    let nobody = || KeyFn::new("tenant", |_| None);
    let either: [Arc<dyn KeyResolver>; 2] = [Arc::new(PrincipalKeyResolver), Arc::new(header())];
    let cases: [(Arc<dyn KeyResolver>, &[&str]); 9] = [
        (Arc::new(header()), &[API_KEY]),
        (Arc::new(header().readable()), &[API_KEY]),
        (
            Arc::new(HeaderKeyResolver::new("Authorization")),
            &["Bearer"],
        ),
        (Arc::new(PrincipalKeyResolver), &["Bearer"]),
        (
            Arc::new(HmacKeyResolver::of_header("x-api-key", &mac)),
            &[API_KEY],
        ),
        (Arc::new(HmacKeyResolver::of(header(), &mac)), &[API_KEY]),
        (
            Arc::new(CompositeKeyResolver::first_of(either)),
            &["Bearer", API_KEY],
        ),
        // Nothing in particular is asked for.
        (Arc::new(nobody()), &["Bearer"]),
        (
            Arc::new(HeaderKeyResolver::new("x\r\nset-cookie: a=b")),
            &["Bearer"],
        ),
    ];
    for (resolver, expected) in cases {
        let url = serve(hello(layer(
            &one(),
            resolver.clone(),
            MissingKey::Unauthorized,
        )))
        .await;
        let response = get(&url).await;
        assert_eq!(response.status(), 401);
        assert_eq!(challenges(&response), expected);
        assert!(response.headers().get("set-cookie").is_none());
        for rule in [
            MissingKey::BadRequest,
            MissingKey::ServerError,
            MissingKey::Skip,
        ] {
            let url = serve(hello(layer(&one(), resolver.clone(), rule))).await;
            assert_eq!(challenges(&get(&url).await), [""; 0], "{rule:?}");
        }
    }
}

#[tokio::test]
async fn a_401_asks_for_what_the_layer_says_and_a_hook_has_the_last_word() {
    let realm = |realm: &str| Challenge::bearer().with_parameter("realm", realm).unwrap();
    let builder = || {
        let by_key = HeaderKeyResolver::new("x-api-key");
        let builder = RateLimitLayer::builder(one().limiter, by_key);
        builder
            .limit(RateLimit::plan("one"))
            .missing_key(MissingKey::Unauthorized)
    };
    let said = builder()
        .challenge(realm("a \"b\""))
        .challenge(Challenge::new("Basic").unwrap());
    let url = serve(hello(said.build().unwrap())).await;
    let expected = [r#"Bearer realm="a \"b\"""#, "Basic"];
    assert_eq!(challenges(&get(&url).await), expected);

    let empty = |status: u16| {
        http::Response::builder()
            .status(status)
            .body(Bytes::new())
            .unwrap()
    };
    let of_its_own = builder().on_rejection(move |_| {
        let mut response = empty(401);
        response
            .headers_mut()
            .insert("www-authenticate", "Negotiate".parse().unwrap());
        response
    });
    let url = serve(hello(of_its_own.build().unwrap())).await;
    assert_eq!(challenges(&get(&url).await), ["Negotiate"]);

    let other_status = builder().on_rejection(move |_| empty(403));
    let url = serve(hello(other_status.build().unwrap())).await;
    assert_eq!(challenges(&get(&url).await), [""; 0]);

    let made_401 = builder()
        .missing_key(MissingKey::BadRequest)
        .on_rejection(move |_| empty(401));
    let url = serve(hello(made_401.build().unwrap())).await;
    assert_eq!(
        challenges(&get(&url).await),
        ["ApiKey header=\"x-api-key\""]
    );
}

/// The layer may have other keys than its first one, and its handlers may ask for them.
#[tokio::test]
async fn a_401_asks_for_the_key_that_the_limit_goes_by() {
    let charge = async |limits: Limits| {
        let limit = RateLimit::plan("one").key("user");
        limits.charge(&limit).await.map(drop)
    };
    let by_key = HeaderKeyResolver::new("x-api-key");
    let layer = RateLimitLayer::builder(one().limiter, by_key)
        .named_key("user", PrincipalKeyResolver)
        .missing_key(MissingKey::Unauthorized)
        .routes([RouteRule::new("/table", RateLimit::plan("one").key("user"))])
        .build()
        .unwrap();
    let first = layer.for_route(&RateLimit::plan("one")).unwrap();
    let router = Router::new()
        .route("/charge", on_get(charge))
        .route("/table", on_get(|| async { "hello" }))
        .route_layer(layer)
        .route("/", on_get(|| async { "hello" }).route_layer(first));
    let url = serve(router).await;
    for (path, expected) in [
        ("/charge", "Bearer"),
        ("/table", "Bearer"),
        ("/", "ApiKey header=\"x-api-key\""),
    ] {
        let response = get(&format!("{url}{path}")).await;
        assert_eq!(response.status(), 401, "{path}");
        assert_eq!(challenges(&response), [expected], "{path}");
    }
    // A browser shows it to scripts if CORS is told to.
    assert!(
        EXPOSED_HEADERS
            .iter()
            .any(|name| name == "www-authenticate")
    );
}

fn challenges(response: &reqwest::Response) -> Vec<&str> {
    let lines = response.headers().get_all("www-authenticate").iter();
    lines.map(|line| line.to_str().unwrap()).collect()
}

#[tokio::test]
async fn no_key_reaches_a_log_or_a_response() {
    const SECRET: &str = "sk-live-4711";
    let log = crate::log::Log::start();
    let bench = one();
    let by_key = || HeaderKeyResolver::new("x-api-key");
    let denying = serve(hello(layer(&bench, by_key(), MissingKey::BadRequest))).await;
    let unknown = RateLimit::plan("unknown");
    let wrong = RateLimitLayer::new(bench.limiter.clone(), by_key(), unknown).unwrap();
    let wrong = serve(hello(wrong)).await;
    let mut answers = Vec::new();
    for url in [&denying, &denying, &wrong, &wrong] {
        let request = reqwest::Client::new().get(url).header("x-api-key", SECRET);
        let response = request.send().await.unwrap();
        answers.push(response.status().as_u16());
        assert!(!format!("{:?}", response.headers()).contains(SECRET));
        assert!(!response.text().await.unwrap().contains(SECRET));
    }
    assert_eq!(answers, [200, 429, 500, 500]);
    assert!(log.text().contains("No plan is called unknown"));
    assert!(!log.text().contains(SECRET));
}
