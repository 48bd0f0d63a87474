//! Whose address it is, behind a proxy: right, and what goes wrong otherwise.
//!
//! `cargo run --release --example behind_a_proxy` starts an app behind a small proxy on free ports, plays clients that tell the
//! truth and some that lie, and stops. With `-- --serve` both keep serving.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::response::IntoResponse;
use axum::routing::get;
use http::{HeaderMap, StatusCode};
use limiter_axum::{ClientIp, RateLimit, RateLimitLayer, TrustedProxies};
use limiter_core::{DefaultRateLimiter, InMemoryPlanRegistry, Plan};
use limiter_memory::MemoryStore;
use tokio::net::TcpListener;

type Outcome<T> = Result<T, Box<dyn Error>>;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The app: 3 requests an hour for each client address, as `client_ip` finds it.
fn app(client_ip: ClientIp) -> Outcome<Router> {
    let plans = InMemoryPlanRegistry::new([Plan::new("visitor", "fixed 3/h")?])?;
    let limiter = DefaultRateLimiter::new(Arc::new(plans), Arc::new(MemoryStore::new()));
    let limit = RateLimit::plan("visitor");
    let limits = RateLimitLayer::new(Arc::new(limiter), client_ip, limit)?;
    Ok(Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(limits))
}

/// A proxy as most of them are: appends the address of its peer to `X-Forwarded-For`, and passes the request on. So that one
/// machine can play many clients, the address is that of the header `x-play-client` if there is one.
async fn proxy(
    State(app): State<String>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
) -> impl IntoResponse {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let client = header("x-play-client").map_or_else(|| peer.ip().to_string(), str::to_owned);
    let forwarded = match header(FORWARDED_FOR) {
        Some(before) => format!("{before}, {client}"),
        None => client,
    };
    match reqwest::Client::new()
        .get(app)
        .header(FORWARDED_FOR, forwarded)
        .send()
        .await
    {
        Ok(response) => response.status(),
        Err(_) => StatusCode::BAD_GATEWAY,
    }
}

async fn start(router: Router, address: &str) -> Outcome<String> {
    let listener = TcpListener::bind(address).await?;
    let url = format!("http://{}", listener.local_addr()?);
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    Ok(url)
}

/// Starts an app and a proxy before it; returns where to find them.
async fn start_both(client_ip: ClientIp, ports: [&str; 2]) -> Outcome<(String, String)> {
    let [app_port, proxy_port] = ports;
    let app = start(app(client_ip)?, app_port).await?;
    let proxy = start(
        Router::new().route("/", get(proxy)).with_state(app.clone()),
        proxy_port,
    )
    .await?;
    Ok((app, proxy))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let proxies = TrustedProxies::networks(["127.0.0.1"])?;
    let trusted = || ClientIp::x_forwarded_for(proxies.clone());
    if std::env::args().any(|argument| argument == "--serve") {
        let (app, proxy) = start_both(trusted(), ["127.0.0.1:3000", "127.0.0.1:3001"]).await?;
        println!("app {app}, proxy {proxy}");
        return std::future::pending().await;
    }
    let free = ["127.0.0.1:0", "127.0.0.1:0"];

    println!("1. The proxy is named. Each client has 3 requests:");
    let (_, proxy) = start_both(trusted(), free).await?;
    tell(&proxy, "203.0.113.9", |_| None).await?;
    tell(&proxy, "198.51.100.7", |_| None).await?;

    println!(
        "\n2. A client lies, with another address each time. What it writes stands left of what the proxy appends:"
    );
    tell(&proxy, "203.0.113.10", |nth| Some(format!("192.0.2.{nth}"))).await?;
    tell(&proxy, "203.0.113.11", |_| {
        Some("\"garbage, , unknown".to_owned())
    })
    .await?;

    println!("\n3. All addresses of an IPv6 /64 are one client:");
    tell(&proxy, "2001:db8:1:2::1", |_| None).await?;
    tell(&proxy, "2001:db8:1:2:ffff::9", |_| None).await?;

    println!(
        "\n4. The proxy is not named: it is the only client that the app sees, and all share its 3 requests:"
    );
    let (_, proxy) = start_both(ClientIp::peer(), free).await?;
    tell(&proxy, "203.0.113.9", |_| None).await?;
    tell(&proxy, "198.51.100.7", |_| None).await?;

    println!(
        "\n5. Past the proxy, directly to an app that trusts another network: headers change nothing:"
    );
    let elsewhere = ClientIp::x_forwarded_for(TrustedProxies::networks(["10.0.0.0/8"])?);
    let (app, _) = start_both(elsewhere, free).await?;
    tell(&app, "this machine", |nth| Some(format!("192.0.2.{nth}"))).await
}

/// Sends 5 requests as `client`, with what it claims of itself.
async fn tell(url: &str, client: &str, claim: impl Fn(usize) -> Option<String>) -> Outcome<()> {
    let mut statuses = Vec::new();
    for nth in 1..=5 {
        let mut request = reqwest::Client::new()
            .get(url)
            .header("x-play-client", client);
        if let Some(claim) = claim(nth) {
            request = request.header(FORWARDED_FOR, claim);
        }
        statuses.push(request.send().await?.status().as_u16().to_string());
    }
    println!("   {client:<22} {}", statuses.join(" "));
    Ok(())
}
