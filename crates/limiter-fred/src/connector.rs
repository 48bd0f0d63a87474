//! [`Connector`]: how a connection to one server is made, with every knob of the client set.

use std::net::SocketAddr;
use std::time::Duration;

use fred::error::{Error, ErrorKind};
use fred::types::config::{Config, Server, ServerConfig, TcpConfig, UnresponsiveConfig};
use fred::types::{Builder, Value};
#[cfg(feature = "tls")]
use limiter_lua::Trust;
use limiter_lua::{Driver, Failure, Job, Node, Redirect, Reply, Target};

use crate::connection::{Command, Connection, command};
use crate::error::failure;

/// Makes clients of fred, each on one connection to one server: they follow no redirection, send nothing again and do not connect
/// again.
pub(crate) struct Connector {
    /// What holds for every server; the address in it is that of none.
    pub(crate) servers: Config,
    /// The same for sentinels.
    pub(crate) sentinels: Config,
    pub(crate) connect_timeout: Duration,
    /// Whom to trust, if servers are reached over TLS and the configuration does not say how.
    #[cfg(feature = "tls")]
    pub(crate) trust: Option<Trust>,
}

impl Connector {
    fn builder(&self, config: Config) -> Builder {
        let mut builder = Builder::from_config(config);
        builder.with_config(|config| config.fail_fast = true);
        builder.with_performance_config(|performance| {
            // The store's own deadline ends every call; a second timer for each would only cost.
            performance.default_command_timeout = Duration::ZERO;
        });
        builder.with_connection_config(|connection| {
            connection.connection_timeout = self.connect_timeout;
            connection.internal_command_timeout = self.connect_timeout;
            // More than one, and fred runs a call again whose reply was lost.
            connection.max_command_attempts = 1;
            connection.max_redirections = 0;
            connection.reconnect_on_auth_error = false;
            connection.auto_client_setname = false;
            // Its check for silent connections sends calls again: the store replaces such connections itself.
            connection.unresponsive = UnresponsiveConfig {
                max_timeout: None,
                ..UnresponsiveConfig::default()
            };
            connection.tcp = TcpConfig {
                nodelay: Some(true),
                ..TcpConfig::default()
            };
        });
        builder
    }

    /// Returns what reaches a node at one of its addresses.
    fn config_of(&self, target: Target<'_>) -> Config {
        let (config, node, address) = match target {
            Target::Server(node, address) => (&self.servers, node, address),
            Target::Sentinel(node, address) => (&self.sentinels, node, address),
            _ => return self.servers.clone(),
        };
        let mut config = config.clone();
        let server = server_at(node, address, &config);
        config.server = ServerConfig::Centralized { server };
        config
    }

    #[cfg(feature = "tls")]
    async fn with_trust(&self, mut config: Config) -> Result<Config, Error> {
        if let Some(trust) = &self.trust {
            let unknown = |error: std::io::Error| Error::new(ErrorKind::Tls, error.to_string());
            let tls = trust.client_config().await.map_err(unknown)?;
            let tls = fred::rustls::ClientConfig::clone(&tls);
            config.tls = Some(fred::types::config::TlsConnector::from(tls).into());
        }
        Ok(config)
    }
}

/// Returns a server at an address alone; a certificate is held against the node's own name.
fn server_at(node: &Node, address: SocketAddr, config: &Config) -> Server {
    if cfg!(not(feature = "tls")) && config.uses_tls() {
        // TLS that the user has brought: fred takes both from the one name.
        return Server::new(node.host(), node.port());
    }
    let server = Server::new(address.ip().to_string(), address.port());
    #[cfg(feature = "tls")]
    let server = Server {
        tls_server_name: Some(node.host().into()),
        ..server
    };
    server
}

impl Driver for Connector {
    type Connection = Connection;
    type Command = Command;
    type Reply = Value;
    type Error = Error;

    async fn connect(&self, target: Target<'_>) -> Result<Connection, Error> {
        let config = self.config_of(target);
        #[cfg(feature = "tls")]
        let config = self.with_trust(config).await?;
        let client = self.builder(config).build()?;
        Connection::own(client).await
    }

    fn command(job: &Job<'_>, with_text: bool) -> Command {
        command(job, with_text)
    }

    async fn send(connection: &mut Connection, command: Command) -> Result<Value, Error> {
        connection.send(command).await
    }

    async fn send_all(
        connection: &mut Connection,
        commands: Vec<Command>,
    ) -> Vec<Result<Value, Error>> {
        connection.send_all(commands).await
    }

    async fn send_to(
        connection: &mut Connection,
        command: Command,
        node: &Redirect,
    ) -> Result<Value, Error> {
        connection.send_to(command, node).await
    }

    fn lost() -> Error {
        Error::new(ErrorKind::Canceled, "the connection was given up")
    }

    fn bytes(reply: &Value) -> Option<&[u8]> {
        reply.as_bytes()
    }

    fn reply(reply: Value) -> Reply {
        match reply {
            Value::Integer(number) => Reply::Int(number),
            Value::String(text) if text == "OK" => Reply::Okay,
            Value::String(text) => Reply::Bytes(text.as_bytes().to_vec()),
            Value::Bytes(bytes) => Reply::Bytes(bytes.to_vec()),
            Value::Array(parts) => Reply::List(parts.into_iter().map(Self::reply).collect()),
            Value::Map(map) => {
                let pairs = map.inner().into_iter();
                let parts = pairs.flat_map(|(key, value)| {
                    [Reply::Bytes(key.as_bytes().to_vec()), Self::reply(value)]
                });
                Reply::List(parts.collect())
            }
            _ => Reply::Nil,
        }
    }

    fn reply_of_bytes(bytes: Vec<u8>) -> Value {
        Value::Bytes(bytes.into())
    }

    fn error_reply(words: &str) -> Error {
        Error::new(ErrorKind::Unknown, words.to_owned())
    }

    fn failure(error: &Error) -> Failure {
        failure(error)
    }

    fn redirect(error: &Error) -> Option<&str> {
        let (code, place) = error.details().split_once(' ')?;
        let (_slot, address) = place.split_once(' ')?;
        matches!(code, "MOVED" | "ASK").then_some(address)
    }

    fn is_cluster(connection: &Connection) -> bool {
        connection.is_cluster()
    }

    fn is_open(connection: &Connection) -> bool {
        connection.is_open()
    }

    fn abort(connection: Connection) {
        connection.abort();
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirection_is_read_with_and_without_a_host() {
        for (words, address) in [
            ("MOVED 3999 10.0.0.1:6381", "10.0.0.1:6381"),
            ("ASK 3999 :6381", ":6381"),
        ] {
            let error = Connector::error_reply(words);
            assert_eq!(Connector::redirect(&error), Some(address));
        }
        assert_eq!(Connector::redirect(&Connector::lost()), None);
    }
}
