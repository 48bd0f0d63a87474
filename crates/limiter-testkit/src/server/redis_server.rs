use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::admin::Admin;
use super::flavour::version_of;
use super::port_lease::PortLease;
use super::server_builder::Mode;
use super::wait::{Seen, wait_for};
use super::watched_child::WatchedChild;
use super::{Flavour, Reply, ServerBuilder, ServerError};

const READY_LIMIT: Duration = Duration::from_secs(15);
const CONFIG_FILE: &str = "server.conf";
const LOG_FILE: &str = "server.log";

/// One running server: a child process on a loopback port, gone when the handle is dropped.
#[derive(Debug)]
pub struct RedisServer {
    flavour: Flavour,
    mode: Mode,
    password: Option<String>,
    program: PathBuf,
    config: String,
    paused: AtomicBool,
    admin: Mutex<Option<Admin>>,
    // In the order in which they must go: the process, its directory, its port.
    child: Mutex<Option<WatchedChild>>,
    dir: TempDir,
    lease: PortLease,
    tls_lease: Option<PortLease>,
}

impl RedisServer {
    /// Starts a server with nothing but defaults.
    ///
    /// # Errors
    /// As [`ServerBuilder::start`].
    pub fn start(flavour: Flavour) -> Result<Self, ServerError> {
        Self::builder(flavour).start()
    }

    /// Starts to describe a server.
    #[must_use]
    pub fn builder(flavour: Flavour) -> ServerBuilder {
        ServerBuilder::new(flavour)
    }

    /// Which program this is.
    #[must_use]
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.lease.addr()
    }

    /// The port it listens on. It keeps it over [`restart`](Self::restart).
    #[must_use]
    pub fn port(&self) -> u16 {
        self.lease.port()
    }

    /// The port on which it speaks TLS, if it [does](ServerBuilder::with_tls).
    #[must_use]
    pub fn tls_port(&self) -> Option<u16> {
        self.tls_lease.as_ref().map(PortLease::port)
    }

    /// The port that other servers and clients are told.
    pub(super) fn told_port(&self) -> u16 {
        self.tls_port().unwrap_or_else(|| self.port())
    }

    /// The port that others are told, on 127.0.0.1.
    pub(super) fn told_addr(&self) -> SocketAddr {
        self.tls_lease.as_ref().unwrap_or(&self.lease).addr()
    }

    /// `redis` or `rediss`: what others speak on the port that they are told.
    pub(super) fn told_scheme(&self) -> &'static str {
        if self.tls_lease.is_some() {
            "rediss"
        } else {
            "redis"
        }
    }

    /// `redis://127.0.0.1:port`, with the default user's password if it has one.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_at(self.addr())
    }

    /// The same as [`url`](Self::url), but to another address: that of a proxy in front of the server.
    #[must_use]
    pub fn url_at(&self, addr: SocketAddr) -> String {
        match &self.password {
            Some(password) => format!("redis://:{password}@{addr}"),
            None => format!("redis://{addr}"),
        }
    }

    /// `redis://user:password@127.0.0.1:port`.
    #[must_use]
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@{}", self.addr())
    }

    /// The process id; none after [`kill`](Self::kill).
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        lock(&self.child).as_ref().map(WatchedChild::pid)
    }

    /// Whether the process exists. A [paused](Self::pause) one does.
    #[must_use]
    pub fn is_running(&self) -> bool {
        lock(&self.child)
            .as_mut()
            .is_some_and(WatchedChild::is_running)
    }

    /// Whether the process is stopped by [`pause`](Self::pause).
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::SeqCst)
    }

    /// Kills the process (SIGKILL) and waits until it is gone. The port stays reserved.
    pub fn kill(&self) {
        *lock(&self.admin) = None;
        *lock(&self.child) = None;
        self.paused.store(false, Ordering::SeqCst);
    }

    /// Kills the process if it runs, and starts it again on the same port, without data and as it was configured at
    /// first. A cluster node keeps its identity and slots, a sentinel what it has learnt.
    ///
    /// # Errors
    /// As [`ServerBuilder::start`].
    pub fn restart(&self) -> Result<(), ServerError> {
        self.kill();
        *lock(&self.child) = Some(self.spawn_child()?);
        self.wait_until_ready()
    }

    /// Stops the process (SIGSTOP): connections stay up and are accepted, nothing is answered.
    ///
    /// # Errors
    /// [`ServerError::Io`] if the process is gone.
    pub fn pause(&self) -> Result<(), ServerError> {
        self.signal(Signal::STOP)?;
        self.paused.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Lets a stopped process continue (SIGCONT).
    ///
    /// # Errors
    /// [`ServerError::Io`] if the process is gone.
    pub fn resume(&self) -> Result<(), ServerError> {
        self.signal(Signal::CONT)?;
        self.paused.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Sends a command as administrator and waits for the reply, at most 5 s.
    ///
    /// # Errors
    /// [`ServerError::Refused`] if the reply is an error; [`ServerError::Io`] if there is none. A sentinel that makes the
    /// server change its role also cuts all its connections: around a fail-over, be ready to ask again.
    pub fn command<A: AsRef<[u8]>>(&self, args: &[A]) -> Result<Reply, ServerError> {
        let mut slot = lock(&self.admin);
        let mut admin = match slot.take().filter(Admin::is_open) {
            Some(admin) => admin,
            None => Admin::connect(self.addr(), self.mode != Mode::Sentinel)?,
        };
        let reply = admin.call(args);
        // After a failed exchange the connection may hold half a reply: only a whole one keeps it.
        if matches!(reply, Ok(_) | Err(ServerError::Refused { .. })) {
            *slot = Some(admin);
        }
        reply
    }

    /// The end of what the server has written to its log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let log = fs::read(self.dir.path().join(LOG_FILE)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines = log.lines().collect::<Vec<_>>();
        lines
            .get(lines.len().saturating_sub(15)..)
            .unwrap_or_default()
            .join("\n")
    }

    /// Starts the process and does not wait for it.
    pub(super) fn spawn(builder: &ServerBuilder) -> Result<Self, ServerError> {
        let flavour = builder.flavour();
        let program = flavour.locate()?;
        let lease = PortLease::acquire()?;
        let tls_lease = builder.has_tls().then(PortLease::acquire).transpose()?;
        let tls_port = tls_lease.as_ref().map(PortLease::port);
        let dir = tempfile::Builder::new()
            .prefix("limiter-testkit-")
            .tempdir()
            .map_err(ServerError::io("make a directory for the server"))?;
        let config = builder.config(lease.port(), tls_port, version_of(&program)?);
        let server = Self {
            flavour,
            mode: builder.mode(),
            password: builder.password().map(str::to_owned),
            program,
            config,
            paused: AtomicBool::new(false),
            admin: Mutex::new(None),
            child: Mutex::new(None),
            dir,
            lease,
            tls_lease,
        };
        *lock(&server.child) = Some(server.spawn_child()?);
        Ok(server)
    }

    /// Waits until the process answers on its port: it, and not a stranger that was quicker to bind.
    pub(super) fn wait_until_ready(&self) -> Result<(), ServerError> {
        let what = format!(
            "{} on port {} to answer",
            self.flavour.program(),
            self.port()
        );
        wait_for(&what, READY_LIMIT, || {
            if !self.is_running() {
                return Err(ServerError::Start {
                    program: self.program.display().to_string(),
                    log: self.log_tail(),
                });
            }
            let info = self.info("server")?;
            let pid = info.get("process_id").cloned().unwrap_or_default();
            let loading = self.mode != Mode::Sentinel
                && self.command(&["PING"])?.text().as_deref() != Some("PONG");
            if self.pid().is_some_and(|own| own.to_string() == pid) && !loading {
                Ok(Seen::Ready(()))
            } else {
                Ok(Seen::NotYet(format!("process {pid} answers")))
            }
        })
    }

    fn spawn_child(&self) -> Result<WatchedChild, ServerError> {
        let dir = self.dir.path();
        self.write_config(&dir.join(CONFIG_FILE))?;
        // A replica leaves the data it received behind.
        let _ = fs::remove_file(dir.join("dump.rdb"));
        let mut args = vec![CONFIG_FILE.to_owned()];
        if self.mode == Mode::Sentinel {
            args.push("--sentinel".to_owned());
        }
        WatchedChild::spawn(&self.program, &args, dir, &dir.join(LOG_FILE))
    }

    fn write_config(&self, path: &Path) -> Result<(), ServerError> {
        if self.mode == Mode::Sentinel && path.exists() {
            return Ok(());
        }
        fs::write(path, &self.config)
            .map_err(ServerError::io("write the configuration of the server"))
    }

    fn signal(&self, signal: Signal) -> Result<(), ServerError> {
        match lock(&self.child).as_ref() {
            Some(child) => child.signal(signal),
            None => Err(ServerError::io("signal a server that was killed")(
                std::io::ErrorKind::NotFound.into(),
            )),
        }
    }
}

/// A panic in one test thread leaves nothing half done here that another thread could trip over.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
