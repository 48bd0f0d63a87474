use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::connection::{lock, serve};
use super::proxy_counts::Tally;
use super::reply_rule::{Ending, ReplyFault};
use super::toxic::ToxicSet;
use super::{Direction, ProxyCounts, ReplyRule, Toxic};
use crate::server::{PortLease, ServerError};

/// Pause after a failed accept (out of file descriptors, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A proxy on a loopback port. Dropped, it closes its port and its connections.
#[derive(Debug)]
pub struct FaultProxy {
    shared: Arc<Shared>,
    acceptor: Mutex<Option<JoinHandle<()>>>,
    lease: PortLease,
}

/// What the connections of a proxy look at.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) upstream: SocketAddr,
    pub(super) seed: u64,
    pub(super) request_toxics: watch::Sender<ToxicSet>,
    pub(super) reply_toxics: watch::Sender<ToxicSet>,
    pub(super) tally: Mutex<Tally>,
    rules: Mutex<Vec<ReplyRule>>,
    /// Ends the connections of its time; those after a cut listen to a new one.
    cut: Mutex<watch::Sender<Option<Ending>>>,
}

impl FaultProxy {
    /// Starts a proxy that forwards faithfully to `upstream`, which need not be there yet.
    ///
    /// # Errors
    /// [`ServerError::Io`] if no port can be had.
    pub async fn start(upstream: SocketAddr) -> Result<Self, ServerError> {
        Self::start_seeded(upstream, 0).await
    }

    /// As [`start`](Self::start); `seed` decides what jitter draws.
    ///
    /// # Errors
    /// [`ServerError::Io`] if no port can be had.
    pub async fn start_seeded(upstream: SocketAddr, seed: u64) -> Result<Self, ServerError> {
        let shared = Shared {
            upstream,
            seed,
            request_toxics: watch::Sender::default(),
            reply_toxics: watch::Sender::default(),
            tally: Mutex::default(),
            rules: Mutex::default(),
            cut: Mutex::default(),
        };
        let proxy = Self {
            shared: Arc::new(shared),
            acceptor: Mutex::default(),
            lease: PortLease::acquire()?,
        };
        proxy.accept_connections().await?;
        Ok(proxy)
    }

    /// Where the proxy listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.lease.addr()
    }

    /// Adds a toxic to all connections, or replaces the one of its kind. It takes effect from the next byte on.
    pub fn add(&self, direction: Direction, toxic: Toxic) {
        if direction != Direction::Replies {
            self.shared
                .request_toxics
                .send_modify(|toxics| toxics.add(toxic));
        }
        if direction != Direction::Requests {
            self.shared
                .reply_toxics
                .send_modify(|toxics| toxics.add(toxic));
        }
    }

    /// Adds a rule behind those that are there. The first rule that hits a reply decides.
    pub fn add_rule(&self, rule: ReplyRule) {
        lock(&self.shared.rules).push(rule);
    }

    /// Takes all toxics and rules away. Connections that were refused stay refused.
    pub fn heal(&self) {
        lock(&self.shared.rules).clear();
        self.shared.request_toxics.send_replace(ToxicSet::default());
        self.shared.reply_toxics.send_replace(ToxicSet::default());
    }

    /// What has come so far.
    #[must_use]
    pub fn counts(&self) -> ProxyCounts {
        lock(&self.shared.tally).counts
    }

    /// How many requests with this first word have come, delivered or not.
    #[must_use]
    pub fn requests_of(&self, command: &str) -> u64 {
        lock(&self.shared.tally).requests_of(command)
    }

    /// Closes all connections in order, and returns when they are gone.
    ///
    /// # Cancel safety
    /// A dropped call has closed them all the same.
    pub async fn close_connections(&self) {
        self.cut(Ending::Close).await;
    }

    /// Resets all connections (RST), and returns when they are gone.
    ///
    /// # Cancel safety
    /// A dropped call has reset them all the same.
    pub async fn reset_connections(&self) {
        self.cut(Ending::Reset).await;
    }

    /// Stops listening: new connections are refused by the operating system, present ones stay.
    ///
    /// # Cancel safety
    /// A dropped call may leave the port open for a moment longer.
    pub async fn refuse_connections(&self) {
        let acceptor = lock(&self.acceptor).take();
        if let Some(acceptor) = acceptor {
            acceptor.abort();
            let _ = acceptor.await;
        }
    }

    /// Listens again, on the same port, after [`refuse_connections`](Self::refuse_connections).
    ///
    /// # Errors
    /// [`ServerError::Io`] if the port was taken meanwhile by a program that knows nothing of [`PortLease`].
    ///
    /// # Cancel safety
    /// A dropped call leaves the port as it was.
    pub async fn accept_connections(&self) -> Result<(), ServerError> {
        if lock(&self.acceptor).is_some() {
            return Ok(());
        }
        let doing = format!("listen on port {}", self.lease.port());
        let listener = TcpListener::bind(self.addr())
            .await
            .map_err(ServerError::io(doing))?;
        *lock(&self.acceptor) = Some(tokio::spawn(accept(listener, Arc::clone(&self.shared))));
        Ok(())
    }

    async fn cut(&self, ending: Ending) {
        let ended = std::mem::take(&mut *lock(&self.shared.cut));
        ended.send_replace(Some(ending));
        ended.closed().await;
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        if let Some(acceptor) = lock(&self.acceptor).take() {
            acceptor.abort();
        }
        lock(&self.shared.cut).send_replace(Some(Ending::Close));
    }
}

impl Shared {
    pub(super) fn fault_for(&self, command: Option<&str>) -> Option<ReplyFault> {
        let mut rules = lock(&self.rules);
        let fault = rules.iter_mut().find_map(|rule| rule.hit(command));
        rules.retain(|rule| !rule.is_spent());
        fault
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let number = {
            let counts = &mut lock(&shared.tally).counts;
            counts.connections += 1;
            counts.connections
        };
        let cut = lock(&shared.cut).subscribe();
        tokio::spawn(serve(client, number, Arc::clone(&shared), cut));
    }
}
