//! An API with a plan for each route, limited by API key and by address.
//!
//! `cargo run --release --example api --features macros` starts it on a free port, plays a few clients and stops. With
//! `-- --serve` it keeps serving, for you to play the client. The tests at the end are how an app of your own would be
//! tested: on the memory store, with a clock that stands still until it is told.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::routing::{get, post};
use axum::{Json, Router};
use limiter_axum::{
    ClientIp, HeaderKeyResolver, Limits, MissingKey, RateLimit, RateLimitLayer, Rejection,
    RouteRule, rate_limit,
};
use limiter_core::{
    DefaultRateLimiter, InMemoryPlanRegistry, Plan, RateLimiter, RateLimiterRepository,
};
use limiter_memory::MemoryStore;
use tokio::net::TcpListener;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The limiter: the plans, on any store.
fn limiter(store: Arc<dyn RateLimiterRepository>) -> Outcome<Arc<dyn RateLimiter>> {
    let plans = InMemoryPlanRegistry::new([
        Plan::new("visitor", "5/s burst 20")?,
        Plan::new("gold", "1/s burst 4")?,
        Plan::new("daily", "sliding 1000/24h")?,
        Plan::new("search", "2/min")?,
        Plan::new("rows", "fixed 100/h")?,
    ])?;
    Ok(Arc::new(DefaultRateLimiter::new(Arc::new(plans), store)))
}

/// The app: everybody is limited by address, those who have an API key by that.
async fn app(limiter: Arc<dyn RateLimiter>) -> Outcome<Router> {
    let by_address = RateLimitLayer::builder(Arc::clone(&limiter), ClientIp::peer())
        .limit(RateLimit::plan("visitor"));
    let by_address = by_address.skip_path("/healthz").skip_preflight().build()?;

    let by_api_key = RateLimitLayer::builder(limiter, HeaderKeyResolver::new("x-api-key"))
        .missing_key(MissingKey::Unauthorized)
        .limit(RateLimit::plans(["gold", "daily"]))
        .routes([RouteRule::unlimited("/api/status")])
        .build()?;
    // Wrong plans are found here, and not by the first caller.
    by_address.verify().await?;
    by_api_key.verify().await?;

    let api = Router::new()
        .route("/hello", get(|| async { "hello" }))
        .route("/status", get(|| async { "all is well" }))
        .route("/search", get(search))
        .route("/import", post(import))
        .route_layer(by_api_key);
    Ok(Router::new()
        .nest("/api", api)
        .route("/healthz", get(|| async { "ok" }))
        .layer(by_address))
}

/// Costs a unit of `search`, besides what its layer asks.
#[rate_limit(plan = "search")]
async fn search() -> &'static str {
    "found"
}

/// Costs a unit of `rows` for each row, which only the handler knows; given back if the import fails.
async fn import(limits: Limits, Json(rows): Json<Vec<String>>) -> Result<String, Rejection> {
    let cost = u32::try_from(rows.len()).unwrap_or(u32::MAX).max(1);
    let limit = RateLimit::plan("rows").cost(cost).refund_failures();
    let receipt = limits.charge(&limit).await?;
    let left = receipt
        .decision()
        .and_then(|decision| decision.plans().first().map(|plan| plan.remaining));
    Ok(format!("{cost} rows imported, {} left", left.unwrap_or(0)))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let app = app(limiter(Arc::new(MemoryStore::new()))?).await?;
    let serve = std::env::args().any(|argument| argument == "--serve");
    let listener = TcpListener::bind(if serve {
        "127.0.0.1:3000"
    } else {
        "127.0.0.1:0"
    })
    .await?;
    let url = format!("http://{}", listener.local_addr()?);
    println!("serving {url}");
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    let server = axum::serve(listener, service);
    if serve {
        return Ok(server.await?);
    }
    tokio::select! {
        stopped = async { server.await } => Ok(stopped?),
        told = story(&url) => told,
    }
}

async fn story(url: &str) -> Outcome<()> {
    println!("\n1. Alice has an API key. Her burst is 4.");
    for _ in 0..5 {
        tell(url, "/api/hello", Some("alice")).await?;
    }
    println!("\n2. Bob's key is his own; the status is not limited by key at all.");
    tell(url, "/api/hello", Some("bob")).await?;
    tell(url, "/api/status", Some("alice")).await?;
    println!("\n3. A search costs a unit of a second plan.");
    for _ in 0..3 {
        tell(url, "/api/search", Some("carol")).await?;
    }
    println!("\n4. An import costs a unit a row.");
    for count in [60, 60] {
        let rows = vec!["row"; count];
        let request = reqwest::Client::new()
            .post(format!("{url}/api/import"))
            .json(&rows);
        show(
            &format!("{count} rows"),
            request.header("x-api-key", "dave").send().await?,
        )
        .await?;
    }
    println!("\n5. Without a key there is no bucket to share:");
    tell(url, "/api/hello", None).await
}

async fn tell(url: &str, path: &str, key: Option<&str>) -> Outcome<()> {
    let mut request = reqwest::Client::new().get(format!("{url}{path}"));
    if let Some(key) = key {
        request = request.header("x-api-key", key);
    }
    show(
        &format!("{path} as {}", key.unwrap_or("nobody")),
        request.send().await?,
    )
    .await
}

async fn show(what: &str, response: reqwest::Response) -> Outcome<()> {
    let field = |name| {
        response
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let limits: Vec<_> = response
        .headers()
        .get_all("ratelimit")
        .iter()
        .flat_map(|it| it.to_str())
        .collect();
    let wait = field("retry-after")
        .map(|wait| format!(", retry after {wait} s"))
        .unwrap_or_default();
    println!(
        "   {what}: {}{wait}  [{}]",
        response.status(),
        limits.join(", ")
    );
    println!("      {}", response.text().await?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    use axum::body::Body;
    use axum::extract::connect_info::MockConnectInfo;
    use http::{Request, StatusCode};
    use limiter_testkit::ManualClock;
    use tower::ServiceExt;

    async fn status(app: &Router, path: &str, key: &str) -> StatusCode {
        let request = Request::get(path).header("x-api-key", key);
        let response = app.clone().oneshot(request.body(Body::empty()).unwrap());
        response.await.unwrap().status()
    }

    #[tokio::test]
    async fn a_burst_of_four_then_one_a_second() {
        let clock = ManualClock::new();
        let store = MemoryStore::builder()
            .clock(Arc::new(clock.clone()))
            .build()
            .unwrap();
        let app = app(limiter(Arc::new(store)).unwrap()).await.unwrap();
        let app = app.layer(MockConnectInfo(SocketAddr::from(([127, 0, 0, 1], 1))));
        for _ in 0..4 {
            assert_eq!(status(&app, "/api/hello", "alice").await, StatusCode::OK);
        }
        assert_eq!(
            status(&app, "/api/hello", "alice").await,
            StatusCode::TOO_MANY_REQUESTS
        );
        clock.advance(Duration::from_secs(1));
        assert_eq!(status(&app, "/api/hello", "alice").await, StatusCode::OK);
        assert_eq!(
            status(&app, "/api/hello", "alice").await,
            StatusCode::TOO_MANY_REQUESTS
        );
    }
}
