//! [`WebContest`]: requests a second of an empty axum handler over loopback, bare and behind layers.
//!
//! The seconds are those that the server's one thread was running, where the system tells: what else the machine
//! does, the client among it, is left out then.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::get;
use http::Request;
use limiter_axum::{ClientIp, HeaderStyle, RateLimit, RateLimitLayer};
use limiter_core::{DefaultRateLimiter, InMemoryPlanRegistry, Plan};
use limiter_memory::MemoryStore;
use tokio::sync::oneshot;
use tower::ServiceExt;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Web {
    /// The handler alone.
    Bare,
    /// Behind our layer, on the memory store, with its usual fields on every response.
    Ours,
    /// Behind our layer without fields, which is what `tower_governor` does unless told otherwise.
    OursWithoutFields,
    /// Behind `tower_governor` as it comes: no fields.
    Governor,
    /// Behind `tower_governor` with its fields on every response.
    GovernorWithFields,
}

impl Web {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Bare,
        Self::Ours,
        Self::OursWithoutFields,
        Self::Governor,
        Self::GovernorWithFields,
    ];

    /// Returns the name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Ours => "limiter-axum",
            Self::OursWithoutFields => "limiter-axum without fields",
            Self::Governor => "tower_governor",
            Self::GovernorWithFields => "tower_governor with fields",
        }
    }

    /// Makes the router. Nobody is ever denied, and all limit by the address of the peer.
    #[expect(clippy::unwrap_used, reason = "the numbers are allowed ones")]
    pub fn router(self) -> Router {
        let bare = Router::new().route("/", get(|| async {}));
        let mut theirs = GovernorConfigBuilder::default();
        theirs.per_nanosecond(10).burst_size(BURST);
        let router = match self {
            Self::Bare => bare,
            Self::Ours => bare.layer(ours(HeaderStyle::default())),
            Self::OursWithoutFields => bare.layer(ours(HeaderStyle::Off)),
            Self::Governor => bare.layer(GovernorLayer::new(theirs.finish().unwrap())),
            Self::GovernorWithFields => {
                let config = theirs.use_headers().finish();
                bare.layer(GovernorLayer::new(config.unwrap()))
            }
        };
        // As a server does: handlers become services once, not for each request.
        router.with_state(())
    }
}

/// So many that nobody is ever denied.
const BURST: u32 = 100_000_000;

#[expect(clippy::unwrap_used, reason = "the numbers are allowed ones")]
fn ours(style: HeaderStyle) -> RateLimitLayer {
    let plan = Plan::new("gold", format!("{BURST}/s").as_str()).unwrap();
    let plans = Arc::new(InMemoryPlanRegistry::new([plan]).unwrap());
    let limiter = DefaultRateLimiter::new(plans, Arc::new(MemoryStore::new()));
    RateLimitLayer::builder(Arc::new(limiter), ClientIp::peer())
        .limit(RateLimit::plan("gold"))
        .headers(style)
        .build()
        .unwrap()
}

/// How it went: requests a second, medians of the rounds, in the order of [`Web::ALL`].
pub struct WebContest {
    /// Requests a second.
    pub per_second: [f64; 5],
    rounds: Vec<[f64; 5]>,
}

impl WebContest {
    /// Lets all take turns over loopback, `rounds` times in each of `setups`.
    ///
    /// In a setup each has a server with one thread and keep-alive connections to it. Where in memory its data lies, and who goes before
    /// it, makes a difference of up to a hundredth, so all are set up anew, in random order each time.
    ///
    /// # Errors
    /// If loopback cannot be used.
    pub fn over_loopback(setups: usize, rounds: usize) -> io::Result<Self> {
        let mut times = Vec::new();
        for _ in 0..setups {
            let mut order: Vec<_> = Web::ALL.into_iter().enumerate().collect();
            fastrand::shuffle(&mut order);
            let connect = |(nth, web): (usize, Web)| {
                Ok((nth, Client::connect(Server::start(web.router())?)?))
            };
            let mut clients = order
                .into_iter()
                .map(connect)
                .collect::<io::Result<Vec<_>>>()?;
            take_turns(&mut clients)?; // to warm up
            for _ in 0..rounds {
                times.push(take_turns(&mut clients)?);
            }
        }
        Ok(Self::of(times))
    }

    fn of(rounds: Vec<[f64; 5]>) -> Self {
        let mut per_second = [0.0; 5];
        for (nth, place) in per_second.iter_mut().enumerate() {
            *place = median(rounds.iter().filter_map(|round| round.get(nth).copied()));
        }
        Self { per_second, rounds }
    }

    /// Returns the throughput of one as a part of another's: the median of what each round said.
    #[must_use]
    pub fn ratio(&self, one: Web, other: Web) -> f64 {
        let place = |web| Web::ALL.iter().position(|it| *it == web);
        let of = |round: &[f64; 5], web| place(web).and_then(|nth| round.get(nth).copied());
        median(
            self.rounds
                .iter()
                .filter_map(|round| Some(of(round, one)? / of(round, other)?)),
        )
    }
}

/// Lets each client have its turn, and returns requests a second, each in its place of [`Web::ALL`].
fn take_turns(clients: &mut [(usize, Client)]) -> io::Result<[f64; 5]> {
    let mut round = [0.0; 5];
    for (nth, client) in clients {
        if let Some(place) = round.get_mut(*nth) {
            *place = client.requests_per_second()?;
        }
    }
    Ok(round)
}

/// Sends one request through a router, without a network; somebody who is denied voids the comparison.
///
/// # Panics
/// If the response is not 200.
pub async fn call(router: Router) {
    let mut request = Request::new(Body::empty());
    let peer = SocketAddr::from(([127, 0, 0, 1], 4711));
    request.extensions_mut().insert(ConnectInfo(peer));
    let Ok(response) = router.oneshot(request).await;
    assert_eq!(response.status(), http::StatusCode::OK);
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A server on one thread, until it is dropped.
struct Server {
    address: SocketAddr,
    _stop: oneshot::Sender<()>,
    /// Where the system tells how long the thread was running.
    running: Option<PathBuf>,
}

impl Server {
    fn start(router: Router) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let (tell, told) = mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::spawn(move || -> io::Result<()> {
            let _ = tell.send(std::fs::canonicalize("/proc/thread-self/schedstat").ok());
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_io()
                .build()?;
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                let service = router.into_make_service_with_connect_info::<SocketAddr>();
                let stopped = async { drop(stopped.await) };
                axum::serve(listener, service)
                    .with_graceful_shutdown(stopped)
                    .await
            })
        });
        Ok(Self {
            address,
            _stop: stop,
            running: told.recv().ok().flatten(),
        })
    }
}

const CONNECTIONS: usize = 16;
const SWEEPS: usize = 10;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Connections that each have one request under way.
struct Client {
    connections: Vec<TcpStream>,
    server: Server,
    started: Instant,
}

impl Client {
    fn connect(server: Server) -> io::Result<Self> {
        let connect = |_| {
            let stream = TcpStream::connect(server.address)?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let connections = (0..CONNECTIONS).map(connect).collect::<io::Result<_>>()?;
        Ok(Self {
            connections,
            server,
            started: Instant::now(),
        })
    }

    /// Returns how long the server was running by now; where nobody tells, how much time has passed.
    fn clock(&self) -> Duration {
        let told = self
            .server
            .running
            .as_ref()
            .and_then(|path| std::fs::read_to_string(path).ok());
        let nanos = told.and_then(|told| told.split(' ').next()?.parse().ok());
        nanos.map_or_else(|| self.started.elapsed(), Duration::from_nanos)
    }

    fn requests_per_second(&mut self) -> io::Result<f64> {
        let start = self.clock();
        for _ in 0..SWEEPS {
            for connection in &mut self.connections {
                connection.write_all(REQUEST)?;
            }
            for connection in &mut self.connections {
                read_empty_response(connection)?;
            }
        }
        let took = self.clock().saturating_sub(start);
        Ok((CONNECTIONS * SWEEPS) as f64 / took.as_secs_f64())
    }
}

/// Reads up to the empty line: the handler has no body.
fn read_empty_response(connection: &mut TcpStream) -> io::Result<()> {
    let mut buffer = [0; 2048];
    let mut len = 0;
    loop {
        let rest = buffer.get_mut(len..).unwrap_or_default();
        match connection.read(rest)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => len += read,
        }
        let read = buffer.get(..len).unwrap_or_default();
        if read.ends_with(b"\r\n\r\n") {
            let is_ok = read.starts_with(b"HTTP/1.1 200");
            return is_ok.then_some(()).ok_or(ErrorKind::InvalidData.into());
        }
    }
}
