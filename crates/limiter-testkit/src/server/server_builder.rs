use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::admin::{ADMIN_PASSWORD, ADMIN_USER};
use super::{Flavour, RedisServer, ServerError};

/// How often a start is tried again because a stranger took the port between the look and the bind.
const PORT_ATTEMPTS: u32 = 5;

/// What kind of process a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Data,
    ClusterNode,
    Sentinel,
}

/// Options of a test server. Made by [`RedisServer::builder`]; also the pattern for the nodes of
/// [`RedisCluster::start_with`](super::RedisCluster::start_with) and
/// [`RedisSentinel::start_with`](super::RedisSentinel::start_with).
///
/// A server listens on 127.0.0.1 only, never persists, allows `DEBUG`, and has an administrator of its own beside the
/// users given here.
#[derive(Clone, Debug)]
pub struct ServerBuilder {
    flavour: Flavour,
    mode: Mode,
    password: Option<String>,
    tls: Option<TlsFiles>,
    lines: Vec<String>,
}

/// What a server shows to those that it speaks TLS with, and trusts of those that it calls itself.
#[derive(Clone, Debug)]
pub(super) struct TlsFiles {
    certificate: PathBuf,
    key: PathBuf,
}

impl ServerBuilder {
    pub(super) fn new(flavour: Flavour) -> Self {
        Self {
            flavour,
            mode: Mode::Data,
            password: None,
            tls: None,
            lines: Vec::new(),
        }
    }

    pub(super) fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Adds a line to the configuration file, such as `maxmemory-policy allkeys-lru`. Later lines win.
    #[must_use]
    pub fn with_config(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Gives the default user a password. It becomes part of [`RedisServer::url`].
    #[must_use]
    pub fn with_password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Adds a user: name and rules as in `ACL SETUSER`, such as `rl on >secret ~rl:* -@all +evalsha`.
    #[must_use]
    pub fn with_acl_user(self, rules: impl AsRef<str>) -> Self {
        self.with_config(format!("user {}", rules.as_ref()))
    }

    /// Bounds the memory: writes beyond it are refused with OOM unless a policy is configured.
    #[must_use]
    pub fn with_max_memory_bytes(self, bytes: u64) -> Self {
        self.with_config(format!("maxmemory {bytes}"))
    }

    /// Bounds the number of connections. One more than `clients` are allowed: the kit's own stays open.
    #[must_use]
    pub fn with_max_clients(self, clients: u32) -> Self {
        self.with_config(format!("maxclients {}", clients.saturating_add(1)))
    }

    /// Starts the server as a replica of another one of this kit.
    #[must_use]
    pub fn with_replica_of(self, primary: SocketAddr) -> Self {
        self.with_config(format!("replicaof {} {}", primary.ip(), primary.port()))
    }

    /// Makes the server listen for TLS, too, on a port of its own, with a certificate in PEM that is its own authority.
    /// Nodes of a cluster, and sentinels with what they watch, speak TLS among each other then, and name the ports of TLS
    /// to clients. The kit itself goes on with the plain port.
    #[must_use]
    pub fn with_tls(mut self, certificate: impl AsRef<Path>, key: impl AsRef<Path>) -> Self {
        self.tls = Some(TlsFiles {
            certificate: certificate.as_ref().to_owned(),
            key: key.as_ref().to_owned(),
        });
        self
    }

    /// Takes TLS from another builder.
    pub(super) fn with_tls_of(mut self, other: &Self) -> Self {
        self.tls.clone_from(&other.tls);
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    /// [`ServerError::NotFound`] without the program; [`ServerError::Start`], with the end of its log, if it gives up;
    /// [`ServerError::TimedOut`] if it does not answer.
    pub fn start(self) -> Result<RedisServer, ServerError> {
        let mut attempt = 1;
        loop {
            let started = RedisServer::spawn(&self)
                .and_then(|server| server.wait_until_ready().map(|()| server));
            match started {
                Err(ServerError::Start { log, .. })
                    if log.contains("in use") && attempt < PORT_ATTEMPTS =>
                {
                    attempt += 1
                }
                other => return other,
            }
        }
    }

    pub(super) fn flavour(&self) -> Flavour {
        self.flavour
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    pub(super) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The configuration file of a server of `version` on `port`, and on `tls_port` if it has TLS.
    pub(super) fn config(&self, port: u16, tls_port: Option<u16>, version: (u32, u32)) -> String {
        let mut lines = vec![
            format!("port {port}"),
            "bind 127.0.0.1".to_owned(),
            "daemonize no".to_owned(),
        ];
        lines.push("protected-mode no".to_owned());
        if self.mode != Mode::Sentinel {
            lines.extend(self.data_lines(version));
        }
        if self.mode == Mode::ClusterNode {
            lines.extend(CLUSTER_LINES.map(str::to_owned));
        }
        if let (Some(files), Some(tls_port)) = (&self.tls, tls_port) {
            lines.extend(self.tls_lines(files, tls_port));
        }
        lines.extend(self.lines.iter().cloned());
        lines.push(String::new());
        lines.join("\n")
    }

    fn tls_lines(&self, files: &TlsFiles, port: u16) -> Vec<String> {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        let mut lines = vec![
            format!("tls-port {port}"),
            format!("tls-cert-file {certificate}"),
            format!("tls-key-file {key}"),
            format!("tls-ca-cert-file {certificate}"),
            "tls-auth-clients no".to_owned(),
            "tls-replication yes".to_owned(),
        ];
        if self.mode == Mode::ClusterNode {
            lines.push("tls-cluster yes".to_owned());
        }
        lines
    }

    fn data_lines(&self, version: (u32, u32)) -> Vec<String> {
        let mut lines = DATA_LINES.map(str::to_owned).to_vec();
        if version >= (7, 0) {
            lines.push("enable-debug-command yes".to_owned());
        }
        lines.push(format!(
            "user {ADMIN_USER} on >{ADMIN_PASSWORD} ~* &* +@all"
        ));
        lines.push(format!("masteruser {ADMIN_USER}"));
        lines.push(format!("masterauth {ADMIN_PASSWORD}"));
        lines.extend(
            self.password
                .iter()
                .map(|password| format!("requirepass {password}")),
        );
        lines
    }
}

/// Nothing on disk; replicas attach without the usual seconds of delay.
const DATA_LINES: [&str; 4] = [
    "save \"\"",
    "appendonly no",
    "repl-diskless-sync yes",
    "repl-diskless-sync-delay 0",
];

const CLUSTER_LINES: [&str; 4] = [
    "cluster-enabled yes",
    "cluster-config-file nodes.conf",
    "cluster-node-timeout 1000",
    "cluster-replica-validity-factor 0",
];
