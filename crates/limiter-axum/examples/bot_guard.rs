//! A guard against bots: it observes visitors, rejects replays, limits each address and keeps a feed of what is odd.
//!
//! `cargo run --release --example bot_guard` starts it on a free port, plays a few visitors, prints the feed and stops. With
//! `-- --serve` it keeps serving. Everything is kept in process; on Redis only `store` would differ.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, Extension, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, http};
use http::{HeaderMap, StatusCode, header::RETRY_AFTER};
use limiter_core::{
    AbuseLimiter, AbusePolicy, DefaultAbuseLimiter, DefaultRateLimiter, InMemoryPlanRegistry, Key,
    Plan, PlanName, Tier, Timestamp, minutes,
};
use limiter_memory::{MemoryAbuseStore, MemorySessionStore, MemoryStore};
use limiter_sessions::{
    Anomaly, BlockReporter, BotProbability, IpLimit, Label, Nonce, NonceVerdict, Observed,
    Retention, Session, SessionPorts, SessionService, Severity, TagKey, Visit, VisitorIp,
};
use tokio::net::TcpListener;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// An address that shows so many fingerprints is odd.
const MANY_FACES: u64 = 4;

/// What the app knows of its visitors.
struct Guard {
    store: Arc<dyn SessionPorts>,
    visitors: SessionService,
    per_ip: IpLimit,
    logins: Arc<dyn AbuseLimiter>,
    login: AbusePolicy,
    tags: TagKey,
    orders: Key,
}

impl Guard {
    fn new() -> Outcome<Self> {
        let tags = TagKey::new("all nodes share this secret, and nobody else knows it")?;
        let builder = MemorySessionStore::builder().tag_key(tags.clone());
        let store: Arc<dyn SessionPorts> = Arc::new(builder.build()?);
        let plans = InMemoryPlanRegistry::new([Plan::new("per_ip", "fixed 8/min")?])?;
        let limiter = DefaultRateLimiter::new(Arc::new(plans), Arc::new(MemoryStore::new()));
        let attempts = || Arc::new(MemoryAbuseStore::new());
        let logins = Arc::new(DefaultAbuseLimiter::new(attempts(), attempts()));
        Ok(Self {
            visitors: SessionService::on(store.clone()).with_retention(Retention::HOUR),
            per_ip: IpLimit::new(Arc::new(limiter), PlanName::new("per_ip")?, tags.clone()),
            logins: Arc::new(BlockReporter::new(logins, store.clone())),
            login: AbusePolicy::builder("login")
                .tier(Tier::new("temp", 3, minutes(15)))
                .build()?,
            tags,
            orders: Key::new("orders")?,
            store,
        })
    }

    /// Lets a visit in, or says why not.
    async fn admit(&self, visit: &Visit) -> Result<Observed, Rejected> {
        let decision = self.per_ip.check(visit.ip).await?;
        if let Some(wait) = decision.retry_after() {
            self.report(Severity::Medium, "too_fast", None).await;
            return Err(Rejected::TooFast(wait));
        }
        let seen = self.visitors.observe(visit).await?;
        if let Some(signal) = self.visitors.signal(visit.ip).await?
            && seen.is_new
            && signal.unique_fingerprints >= MANY_FACES
        {
            self.report(Severity::Critical, "many_faces", Some(&seen.session))
                .await;
        }
        Ok(seen)
    }

    /// Puts something odd into the feed. A feed that fails must not fail the request.
    async fn report(&self, severity: Severity, kind: &str, session: Option<&Session>) {
        let Ok(kind) = Label::new(kind) else { return };
        let mut anomaly = Anomaly::new(severity, kind);
        if let Some(session) = session {
            anomaly = anomaly.in_session(session.id);
        }
        if let Err(error) = self.visitors.report(&anomaly).await {
            eprintln!("the feed missed {}: {error}", anomaly.kind());
        }
    }
}

/// An answer that is not what the visitor came for.
enum Rejected {
    TooFast(Duration),
    For(StatusCode, String),
}

impl Rejected {
    fn bad_input(error: impl Error) -> Self {
        Self::For(StatusCode::BAD_REQUEST, error.to_string())
    }
}

impl<E: Error> From<E> for Rejected {
    fn from(error: E) -> Self {
        Self::For(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

impl IntoResponse for Rejected {
    fn into_response(self) -> Response {
        match self {
            Self::For(status, text) => (status, text).into_response(),
            Self::TooFast(wait) => {
                let seconds = wait.as_micros().div_ceil(1_000_000).to_string();
                let retry_after = [(RETRY_AFTER, seconds)];
                (StatusCode::TOO_MANY_REQUESTS, retry_after, "too fast").into_response()
            }
        }
    }
}

/// Reads a visit off a request; what is no good is refused before anything is looked up.
fn visit(headers: &HeaderMap, peer: IpAddr) -> Result<Visit, Rejected> {
    let field = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let fingerprint = field("x-fingerprint").unwrap_or_default().parse();
    // So that one machine can play many visitors. An app of yours asks `limiter_axum::ClientIp`.
    let ip = field("x-play-ip").map_or_else(|| VisitorIp::new(peer), str::parse);
    let visit = Visit::new(
        fingerprint.map_err(Rejected::bad_input)?,
        ip.map_err(Rejected::bad_input)?,
    );
    // A detector of yours knows better than to look at one field.
    let is_tool = field("user-agent").is_some_and(|agent| agent.contains("bot"));
    let likely = BotProbability::from_ppm(if is_tool { 900_000 } else { 50_000 });
    Ok(visit.with_bot_probability(likely?))
}

async fn observe(
    State(guard): State<Arc<Guard>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Result<Response, Rejected> {
    let visit = visit(request.headers(), peer.ip())?;
    let seen = guard.admit(&visit).await?;
    request.extensions_mut().insert(seen.session);
    Ok(next.run(request).await)
}

async fn hello(Extension(session): Extension<Session>) -> String {
    format!(
        "hello, this is your request number {}",
        session.request_count
    )
}

/// Costs money, so it must not be done twice: every order has a nonce.
async fn order(
    State(guard): State<Arc<Guard>>,
    Extension(session): Extension<Session>,
    headers: HeaderMap,
) -> Result<&'static str, Rejected> {
    let nonce = headers.get("x-nonce").and_then(|nonce| nonce.to_str().ok());
    let nonce = Nonce::new(nonce.unwrap_or_default());
    let nonce = nonce.map_err(Rejected::bad_input)?;
    // Not the session: who listened sends it again from another one. Where there are accounts, the account's.
    match guard.visitors.verify_nonce(&guard.orders, &nonce).await {
        NonceVerdict::Accepted => Ok("ordered"),
        NonceVerdict::Replayed => {
            let kind = "replayed_nonce";
            guard.report(Severity::High, kind, Some(&session)).await;
            Err(Rejected::For(
                StatusCode::CONFLICT,
                "sent before".to_owned(),
            ))
        }
        NonceVerdict::Unverified(error) => Err(error.into()),
    }
}

/// Knows no password, so every attempt fails; the third blocks, and the block is in the feed.
async fn login(
    State(guard): State<Arc<Guard>>,
    Extension(session): Extension<Session>,
) -> Rejected {
    // Not the session: another fingerprint would be another one.
    let key = guard.tags.rate_key(session.ip);
    let decision = guard.logins.record(&key, &guard.login).await;
    if decision.is_allowed() {
        return Rejected::For(StatusCode::UNAUTHORIZED, "wrong password".to_owned());
    }
    Rejected::For(StatusCode::FORBIDDEN, "blocked".to_owned())
}

/// The newest of each severity, the worst first.
async fn feed(State(guard): State<Arc<Guard>>) -> Result<String, Rejected> {
    let mut lines = Vec::new();
    for severity in Severity::ALL.into_iter().rev() {
        let recent = guard.store.recent(severity, Timestamp::EPOCH, 10).await?;
        lines.extend(recent.iter().map(|reported| {
            let anomaly = &reported.anomaly;
            let session = anomaly.session().map(|id| format!("{id:?}"));
            let session = session.unwrap_or_default();
            format!(
                "   {severity:8} {:16} {session}{}",
                anomaly.kind(),
                anomaly.note()
            )
        }));
    }
    Ok(lines.join("\n"))
}

fn app(guard: Arc<Guard>) -> Router {
    Router::new()
        .route("/", get(hello))
        .route("/order", post(order))
        .route("/login", post(login))
        .layer(from_fn_with_state(guard.clone(), observe))
        .route("/feed", get(feed))
        .with_state(guard)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let guard = Arc::new(Guard::new()?);
    let serve = std::env::args().any(|argument| argument == "--serve");
    let address = if serve {
        "127.0.0.1:3000"
    } else {
        "127.0.0.1:0"
    };
    let listener = TcpListener::bind(address).await?;
    let url = format!("http://{}", listener.local_addr()?);
    println!("serving {url}");
    let service = app(guard.clone()).into_make_service_with_connect_info::<SocketAddr>();
    let server = axum::serve(listener, service);
    if serve {
        return Ok(server.await?);
    }
    tokio::select! {
        stopped = async { server.await } => Ok(stopped?),
        told = story(&url, &guard) => told,
    }
}

async fn story(url: &str, guard: &Guard) -> Outcome<()> {
    let ann = Visitor::new(url, "a1", "203.0.113.9");
    println!("\n1. Ann comes back: same fingerprint, same address, one session.");
    ann.get("/").await?;
    ann.get("/").await?;
    println!("\n2. She orders; somebody who listened sends the same order again.");
    ann.post("/order", "7f3a-01").await?;
    let eve = Visitor::new(url, "e1", "198.51.100.99");
    eve.post("/order", "7f3a-01").await?;
    println!("\n3. Bad input is refused before anything is looked up.");
    ann.post("/order", "no spaces, please").await?;
    Visitor::new(url, "not hex", "203.0.113.9").get("/").await?;
    println!("\n4. One address shows one face after the other.");
    for face in ["b1", "b2", "b3", "b4"] {
        Visitor::new(url, face, "198.51.100.7").get("/").await?;
    }
    println!("\n5. A bot guesses passwords, with another face for the last.");
    let bot = |face| Visitor::new(url, face, "192.0.2.66").called("shopbot/1.0");
    for face in ["c1", "c1", "c2"] {
        bot(face).post("/login", "").await?;
    }
    println!("\n6. And asks faster than 8 times a minute.");
    for _ in 0..6 {
        bot("c1").get("/").await?;
    }
    if let Some(signal) = guard.visitors.signal("192.0.2.66".parse()?).await? {
        let mean = signal.mean_bot_probability.map(|mean| mean.to_string());
        println!(
            "   its address: {} sessions, a bot by {}",
            signal.total_sessions,
            mean.unwrap_or_default()
        );
    }
    println!(
        "\nThe feed:\n{}",
        reqwest::get(format!("{url}/feed")).await?.text().await?
    );
    let stats = guard.store.stats(1_000).await?;
    println!(
        "\n{} sessions from {} addresses, {} nonce",
        stats.sessions, stats.addresses, stats.nonces
    );
    Ok(())
}

/// Who visits, in the story.
struct Visitor {
    url: String,
    fingerprint: String,
    ip: String,
    agent: String,
}

impl Visitor {
    fn new(url: &str, face: &str, ip: &str) -> Self {
        Self {
            url: url.to_owned(),
            fingerprint: face.repeat(32),
            ip: ip.to_owned(),
            agent: "browser".to_owned(),
        }
    }

    fn called(mut self, agent: &str) -> Self {
        agent.clone_into(&mut self.agent);
        self
    }

    async fn get(&self, path: &str) -> Outcome<()> {
        self.send("GET", path, reqwest::Client::new().get(self.at(path)))
            .await
    }

    async fn post(&self, path: &str, nonce: &str) -> Outcome<()> {
        let request = reqwest::Client::new().post(self.at(path));
        self.send("POST", path, request.header("x-nonce", nonce))
            .await
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    async fn send(&self, verb: &str, path: &str, request: reqwest::RequestBuilder) -> Outcome<()> {
        let request = request
            .header("x-fingerprint", &self.fingerprint)
            .header("x-play-ip", &self.ip)
            .header("user-agent", &self.agent);
        let response = request.send().await?;
        let (status, text) = (response.status(), response.text().await?);
        println!("   {verb:4} {path:8} {status}: {text}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use axum::body::Body;
    use axum::extract::connect_info::MockConnectInfo;
    use tower::ServiceExt;

    async fn status(app: &Router, path: &str, nonce: &str, face: &str) -> StatusCode {
        let request = http::Request::post(path)
            .header("x-fingerprint", face.repeat(32))
            .header("x-nonce", nonce);
        let request = request.body(Body::empty()).unwrap();
        app.clone().oneshot(request).await.unwrap().status()
    }

    #[tokio::test]
    async fn replays_blocks_and_haste_are_turned_away_and_told() {
        let guard = Arc::new(Guard::new().unwrap());
        let peer = MockConnectInfo(SocketAddr::from(([203, 0, 113, 9], 1)));
        let app = app(guard.clone()).layer(peer);
        for (path, nonce, face, expected) in [
            ("/order", "n-1", "ab", 200),
            ("/order", "n-1", "cd", 409),
            ("/order", "a b", "ab", 400),
            ("/login", "-", "ab", 401),
            ("/login", "-", "ab", 401),
            ("/login", "-", "cd", 403),
            ("/login", "-", "ab", 403),
            ("/order", "n-2", "ab", 200),
            ("/order", "n-3", "ab", 429),
        ] {
            let status = status(&app, path, nonce, face).await;
            assert_eq!(status.as_u16(), expected, "{path} {nonce} {face}");
        }
        let Ok(told) = feed(State(guard)).await else {
            panic!("the feed is in process")
        };
        let kinds: Vec<_> = told
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1))
            .collect();
        assert_eq!(kinds, ["abuse_block", "replayed_nonce", "too_fast"]);
    }
}
