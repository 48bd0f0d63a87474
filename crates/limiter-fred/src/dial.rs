//! [`Dial`]: how a connection is made, with every knob of the client set.

use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::interfaces::ClientLike;
use fred::types::config::{Config, ReconnectPolicy, TcpConfig, UnresponsiveConfig};
use fred::types::{Builder, Value};
use limiter_lua::{Driver, Failure, Fault, Job, Redirect, Reply, Settings};
use tokio::time::timeout;

use crate::connection::{Command, Connection, command};
use crate::error::failure;

/// How often a cluster client tries a node again that it lost, and how far apart at most, in milliseconds.
const RECONNECT_FOR_EVER: u32 = 0;
const RECONNECT_FIRST_MS: u32 = 20;
const RECONNECT_LONGEST_MS: u32 = 1000;

/// How a connection is made.
pub(crate) struct Dial {
    to: To,
    connect_timeout: Duration,
}

enum To {
    Given(Client),
    Endpoint(Box<Config>),
}

impl Dial {
    pub(crate) const fn given(client: Client) -> Self {
        Self {
            to: To::Given(client),
            connect_timeout: Duration::MAX,
        }
    }

    pub(crate) fn new(config: Config, settings: &Settings) -> Self {
        Self {
            to: To::Endpoint(Box::new(config)),
            connect_timeout: settings.connect_timeout,
        }
    }

    fn builder(&self, config: &Config) -> Builder {
        let mut builder = Builder::from_config(config.clone());
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
            connection.cluster_cache_update_delay = Duration::ZERO;
            connection.reconnect_on_auth_error = false;
            connection.auto_client_setname = false;
            // It would cost a permission more, and a call that fails says the same.
            connection.disable_cluster_health_check = true;
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
        if config.server.is_clustered() {
            // One node of many may be lost and found; a lone server's client is replaced as a whole.
            builder.set_policy(ReconnectPolicy::new_exponential(
                RECONNECT_FOR_EVER,
                RECONNECT_FIRST_MS,
                RECONNECT_LONGEST_MS,
                2,
            ));
        }
        builder
    }
}

impl Driver for Dial {
    type Connection = Connection;
    type Command = Command;
    type Reply = Value;
    type Error = Error;

    async fn connect(&self) -> Result<Connection, Error> {
        let config = match &self.to {
            To::Given(client) => return Ok(Connection::new(client.clone(), None)),
            To::Endpoint(config) => config,
        };
        let client = self.builder(config).build()?;
        let connecting = async {
            let task = client.init().await?;
            greet(&client).await.map(|()| task)
        };
        match timeout(self.connect_timeout, connecting).await {
            Ok(Ok(task)) => Ok(Connection::new(client, Some(task))),
            failed => {
                Connection::new(client, None).close();
                Err(match failed {
                    Ok(Err(error)) => error,
                    _ => Error::new(
                        ErrorKind::Timeout,
                        "connecting took longer than its time-out",
                    ),
                })
            }
        }
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

    fn is_cluster(connection: &Connection) -> bool {
        connection.is_cluster()
    }

    fn is_given(&self) -> bool {
        matches!(self.to, To::Given(_))
    }

    fn is_open(connection: &Connection) -> bool {
        connection.is_open()
    }

    fn close(connection: Connection) {
        connection.close();
    }
}

/// Makes sure that a server is there and takes this connection: a stopped or crowded one lets the kernel accept it. A reply
/// that refuses something else is left to the calls.
async fn greet(client: &Client) -> Result<(), Error> {
    match client.ping::<Value>(None).await {
        Err(error) if !matches!(failure(&error), Failure::Reply(fault) if fault != Fault::Overloaded) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

impl std::fmt::Debug for Dial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match &self.to {
            To::Given(_) => "Given",
            To::Endpoint(config) if config.server.is_clustered() => "Cluster",
            To::Endpoint(config) if config.server.is_sentinel() => "Sentinel",
            To::Endpoint(_) => "Standalone",
        })
    }
}
