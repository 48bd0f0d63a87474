//! Many clients at once, and one that waits as it is told.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::{Next, from_fn};
use axum::routing::get as on_get;
use futures_util::future::join_all;
use limiter_axum::{ClientIp, RateLimit, RateLimitLayer};
use limiter_core::DefaultRateLimiter;
use limiter_memory::MemoryStore;

use crate::harness::{Bench, get, registry, serve, text};

const CLIENTS: usize = 8;
const REQUESTS: usize = 25;

/// Counts what clients with connections of their own, each kept alive, are let have between them.
async fn admitted(url: &str, client: impl Fn() -> reqwest::Client) -> usize {
    let one_client = |client: reqwest::Client| async move {
        let mut admitted = 0;
        for _ in 0..REQUESTS {
            let response = client.get(url).send().await.unwrap();
            admitted += usize::from(response.status() == 200);
            // A connection is kept once its response is read.
            response.bytes().await.unwrap();
        }
        admitted
    };
    let clients = (0..CLIENTS).map(|_| one_client(client()));
    join_all(clients).await.into_iter().sum()
}

/// The connections that a server has seen.
#[derive(Clone, Default)]
struct Connections(Arc<Mutex<HashSet<SocketAddr>>>);

impl Connections {
    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

fn hello(bench: &Bench, connections: &Connections) -> Router {
    let Connections(seen) = connections.clone();
    let note = move |ConnectInfo(peer): ConnectInfo<SocketAddr>, request: Request, next: Next| {
        seen.lock().unwrap().insert(peer);
        next.run(request)
    };
    Router::new()
        .route("/", on_get(|| async { "hello" }))
        .layer(bench.by_ip(RateLimit::plan("gold")))
        .layer(from_fn(note))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_several_clients_gets_exactly_the_limit_over_http_1() {
    let bench = Bench::new(&[("gold", "10/s burst 77")]);
    let connections = Connections::default();
    let url = serve(hello(&bench, &connections)).await;
    assert_eq!(admitted(&url, reqwest::Client::new).await, 77);
    // A client opens one more if the last is not back yet: a few, where without keep-alive there is one for each request.
    let opened = CLIENTS..CLIENTS * REQUESTS / 2;
    assert!(opened.contains(&connections.count()));
    bench.clock.advance(Duration::from_secs(2));
    assert_eq!(admitted(&url, reqwest::Client::new).await, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_several_clients_gets_exactly_the_limit_over_http_2() {
    let bench = Bench::new(&[("gold", "sliding 77/min")]);
    let connections = Connections::default();
    let url = serve(hello(&bench, &connections)).await;
    let client = || {
        let builder = reqwest::Client::builder().http2_prior_knowledge();
        builder.build().unwrap()
    };
    let version = client().get(&url).send().await.unwrap().version();
    assert_eq!(version, http::Version::HTTP_2);
    assert_eq!(admitted(&url, client).await, 76);
    assert_eq!(connections.count(), 1 + CLIENTS, "each keeps its own");
}

/// The one test that sleeps: the system's clock is the point of it.
#[tokio::test]
async fn a_client_that_sleeps_as_told_is_let_in() {
    let limiter =
        DefaultRateLimiter::new(registry(&[("slow", "1/3s")]), Arc::new(MemoryStore::new()));
    let limit = RateLimit::plan("slow");
    let layer = RateLimitLayer::new(Arc::new(limiter), ClientIp::peer(), limit).unwrap();
    let url = serve(
        Router::new()
            .route("/", on_get(|| async { "hello" }))
            .layer(layer),
    )
    .await;
    assert_eq!(get(&url).await.status(), 200);
    let denied = get(&url).await;
    assert_eq!(denied.status(), 429);
    let seconds = text(denied.headers(), "retry-after")
        .unwrap()
        .parse()
        .unwrap();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    assert_eq!(get(&url).await.status(), 200);
}
