//! [`Dial`]: how a connection is made, with every knob of the client set.

use std::sync::Arc;
use std::time::Duration;

use limiter_lua::{Driver, Failure, Fault, Job, Redirect, Reply, Settings};
#[cfg(feature = "tls")]
use redis::TlsCertificates;
use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClientBuilder;
use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, RedisError,
    RedisResult, TlsMode, Value,
};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::connection::{Connection, command};
use crate::endpoint::{Arrangement, Endpoint, InvalidEndpoint};
use crate::error::{failure, failure_to_connect};

/// How many commands may wait for the socket at once before callers wait for room; redis-rs says 50.
const PIPELINE_BUFFER: usize = 512;

/// How a connection is made.
pub(crate) struct Dial {
    to: To,
    connect_timeout: Duration,
}

enum To {
    Given(Connection),
    Standalone(Client, AsyncConnectionConfig),
    Cluster(redis::cluster::ClusterClient),
    Sentinel(Arc<Mutex<SentinelClient>>, AsyncConnectionConfig),
}

impl Dial {
    pub(crate) const fn given(connection: Connection) -> Self {
        Self {
            to: To::Given(connection),
            connect_timeout: Duration::MAX,
        }
    }

    pub(crate) fn new(endpoint: Endpoint, settings: &Settings) -> Result<Self, InvalidEndpoint> {
        #[cfg(feature = "tls")]
        crate::tls::ensure_provider();
        let connect_timeout = settings.connect_timeout;
        let to = Self::to(endpoint, settings).map_err(InvalidEndpoint::Client)?;
        Ok(Self {
            to,
            connect_timeout,
        })
    }

    fn to(endpoint: Endpoint, settings: &Settings) -> RedisResult<To> {
        let connect_timeout = settings.connect_timeout;
        #[cfg(feature = "tls")]
        let certificates = endpoint.roots.map(|roots| TlsCertificates {
            client_tls: None,
            root_cert: Some(roots),
        });
        // The store wraps every call in its own deadline; a second timer for each would only cost.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(connect_timeout))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(PIPELINE_BUFFER);
        Ok(match endpoint.arrangement {
            Arrangement::Standalone(info) => {
                #[cfg(feature = "tls")]
                if let Some(certificates) = certificates {
                    let client = Client::build_with_tls(tuned(*info), certificates)?;
                    return Ok(To::Standalone(client, config));
                }
                To::Standalone(Client::open(tuned(*info))?, config)
            }
            Arrangement::Cluster(nodes) => {
                // Retries are ours: the client's would run a call again whose reply was lost.
                let client = ClusterClientBuilder::new(nodes.into_iter().map(tuned))
                    .retries(0)
                    .connection_timeout(connect_timeout)
                    .response_timeout(settings.deadline.saturating_mul(2))
                    .overall_response_timeout(None)
                    .tcp_settings(tcp_settings());
                #[cfg(feature = "tls")]
                let client = match certificates {
                    Some(certificates) => client.certs(certificates),
                    None => client,
                };
                To::Cluster(client.build()?)
            }
            Arrangement::Sentinel {
                sentinels,
                master,
                server,
            } => {
                #[cfg(feature = "tls")]
                if let Some(certificates) = certificates {
                    let tcp = tcp_settings();
                    let client = crate::tls::sentinel_client(
                        &sentinels,
                        &master,
                        &server,
                        &tcp,
                        certificates,
                    )?;
                    return Ok(To::Sentinel(Arc::new(Mutex::new(client)), config));
                }
                let mut node = SentinelNodeConnectionInfo::default()
                    .set_redis_connection_info(tuned((*server).clone()).redis_settings().clone())
                    .set_tcp_settings(tcp_settings());
                if matches!(server.addr(), ConnectionAddr::TcpTls { .. }) {
                    node = node.set_tls_mode(TlsMode::Secure);
                }
                let sentinels = sentinels.into_iter().map(tuned).collect();
                let client = SentinelClient::build(
                    sentinels,
                    master,
                    Some(node),
                    SentinelServerType::Master,
                )?;
                To::Sentinel(Arc::new(Mutex::new(client)), config)
            }
        })
    }
}

impl Driver for Dial {
    type Connection = Connection;
    type Command = Cmd;
    type Reply = Value;
    type Error = RedisError;

    async fn connect(&self) -> RedisResult<Connection> {
        let connecting = async {
            match &self.to {
                To::Given(connection) => Ok(connection.clone()),
                To::Standalone(client, config) => {
                    let connection = client.get_multiplexed_async_connection_with_config(config);
                    greeted(connection.await?).await
                }
                To::Cluster(client) => client.get_async_connection().await.map(Connection::Cluster),
                To::Sentinel(client, config) => {
                    let mut client = client.lock().await;
                    greeted(client.get_async_connection_with_config(config).await?).await
                }
            }
        };
        match timeout(self.connect_timeout, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(RedisError::from((
                ErrorKind::Io,
                "connecting took longer than its time-out",
            ))),
        }
    }

    fn command(job: &Job<'_>, with_text: bool) -> Cmd {
        command(job, with_text)
    }

    async fn send(connection: &mut Connection, command: Cmd) -> RedisResult<Value> {
        connection.send(command).await
    }

    async fn send_all(connection: &mut Connection, commands: Vec<Cmd>) -> Vec<RedisResult<Value>> {
        connection.send_all(commands).await
    }

    async fn send_to(
        connection: &mut Connection,
        command: Cmd,
        node: &Redirect,
    ) -> RedisResult<Value> {
        connection.send_to(command, node).await
    }

    fn lost() -> RedisError {
        RedisError::from((ErrorKind::Io, "the connection was given up"))
    }

    fn bytes(reply: &Value) -> Option<&[u8]> {
        match reply {
            Value::BulkString(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn reply(reply: Value) -> Reply {
        match reply {
            Value::Okay => Reply::Okay,
            Value::Int(number) => Reply::Int(number),
            Value::BulkString(bytes) => Reply::Bytes(bytes),
            Value::SimpleString(text) | Value::VerbatimString { text, .. } => {
                Reply::Bytes(text.into_bytes())
            }
            Value::Array(parts) => Reply::List(parts.into_iter().map(Self::reply).collect()),
            Value::Map(pairs) => {
                let parts = pairs.into_iter().flat_map(|(key, value)| [key, value]);
                Reply::List(parts.map(Self::reply).collect())
            }
            _ => Reply::Nil,
        }
    }

    fn reply_of_bytes(bytes: Vec<u8>) -> Value {
        Value::BulkString(bytes)
    }

    fn error_reply(words: &str) -> RedisError {
        let line = format!("-{}\r\n", words.replace(['\r', '\n'], " "));
        let reply = redis::parse_redis_value(line.as_bytes());
        match reply.and_then(Value::extract_error) {
            Err(error) => error,
            Ok(_) => Self::lost(),
        }
    }

    fn failure(error: &RedisError) -> Failure {
        failure(error)
    }

    fn failure_to_connect(error: &RedisError) -> Failure {
        failure_to_connect(error)
    }

    fn redirect(error: &RedisError, asking: bool) -> Option<Redirect> {
        let (address, _slot) = error.redirect_node()?;
        Redirect::to_node(address, asking)
    }

    fn is_cluster(connection: &Connection) -> bool {
        matches!(connection, Connection::Cluster(_))
    }

    fn is_given(&self) -> bool {
        matches!(self.to, To::Given(_))
    }
}

/// Makes sure that a server is there and takes this connection: a stopped or crowded one lets the kernel accept it, and
/// the client by itself sends nothing. A reply that refuses something else is left to the calls.
async fn greeted(mut connection: MultiplexedConnection) -> RedisResult<Connection> {
    let greeted = redis::cmd("PING")
        .query_async::<Value>(&mut connection)
        .await;
    match greeted {
        Err(error) if !matches!(failure(&error), Failure::Reply(fault) if fault != Fault::Overloaded) => {
            Err(error)
        }
        _ => Ok(Connection::Multiplexed(connection)),
    }
}

/// Sets what the URL of a server cannot say.
fn tuned(info: ConnectionInfo) -> ConnectionInfo {
    let settings = info.redis_settings().clone().set_skip_set_lib_name();
    info.set_redis_settings(settings)
        .set_tcp_settings(tcp_settings())
}

fn tcp_settings() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

impl std::fmt::Debug for Dial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.to {
            To::Given(_) => "Given",
            To::Standalone(..) => "Standalone",
            To::Cluster(_) => "Cluster",
            To::Sentinel(..) => "Sentinel",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_inside_a_batch_means_what_it_means_alone() {
        let failure = |words| failure(&Dial::error_reply(words));
        assert_eq!(failure("OOM no room"), Failure::Reply(Fault::Overloaded));
        assert_eq!(
            failure("READONLY a replica"),
            Failure::Reply(Fault::Demoted)
        );
        let broken = "LIMITERSTATE unknown\r\n+OK\nversion";
        assert!(matches!(
            failure(broken),
            Failure::Reply(Fault::Misconfigured(_))
        ));
        assert_eq!(failure(""), Failure::Reply(Fault::Unknown));
    }
}
