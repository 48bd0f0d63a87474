//! [`Connector`]: how a connection to one server is made, with every knob of the client set.

use std::net::SocketAddr;
use std::path::PathBuf;

#[cfg(feature = "tls")]
use limiter_lua::Trust;
use limiter_lua::{Driver, Failure, Job, Node, Redirect, Reply, Target};
use redis::{Cmd, ErrorKind, RedisConnectionInfo, RedisError, RedisResult, Value};
use tokio::net::TcpStream;

use crate::connection::{OpenConnection, command};
use crate::error::{failure, failure_to_connect};

/// Makes connections of redis-rs, each to one server: they follow no redirection, send nothing again and do not connect again.
pub(crate) struct Connector {
    pub(crate) servers: Access,
    /// The sentinels, each with what it wants to know.
    pub(crate) sentinels: Vec<(Node, Access)>,
    /// The socket of Unix, if that is how the server is reached.
    pub(crate) socket: Option<PathBuf>,
    #[cfg(feature = "tls")]
    pub(crate) trust: Trust,
}

/// What a server wants to know of who connects, and whether over TLS.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) settings: RedisConnectionInfo,
    #[cfg(feature = "tls")]
    pub(crate) is_tls: bool,
}

impl Connector {
    #[cfg_attr(
        not(feature = "tls"),
        allow(unused_variables, reason = "the name is for its certificate")
    )]
    async fn to(
        &self,
        address: SocketAddr,
        node: &Node,
        access: &Access,
    ) -> RedisResult<OpenConnection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        #[cfg(feature = "tls")]
        if access.is_tls {
            return self.over_tls(stream, node, access).await;
        }
        OpenConnection::own(&access.settings, stream).await
    }

    #[cfg(feature = "tls")]
    async fn over_tls(
        &self,
        stream: TcpStream,
        node: &Node,
        access: &Access,
    ) -> RedisResult<OpenConnection> {
        use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};

        let no_name = |_| RedisError::from((ErrorKind::InvalidClientConfig, "no name of a host"));
        let host = ServerName::try_from(node.host().to_owned()).map_err(no_name)?;
        let tls = TlsConnector::from(self.trust.client_config().await?);
        let stream = tls.connect(host, stream).await?;
        OpenConnection::own(&access.settings, stream).await
    }

    #[cfg(unix)]
    async fn to_socket(&self) -> RedisResult<OpenConnection> {
        let socket = self.socket.as_deref().ok_or_else(no_socket)?;
        let stream = tokio::net::UnixStream::connect(socket).await?;
        OpenConnection::own(&self.servers.settings, stream).await
    }

    #[cfg(not(unix))]
    fn to_socket(&self) -> std::future::Ready<RedisResult<OpenConnection>> {
        std::future::ready(Err(no_socket()))
    }
}

fn no_socket() -> RedisError {
    RedisError::from((ErrorKind::InvalidClientConfig, "no socket of Unix"))
}

impl Driver for Connector {
    type Connection = OpenConnection;
    type Command = Cmd;
    type Reply = Value;
    type Error = RedisError;

    async fn connect(&self, target: Target<'_>) -> RedisResult<OpenConnection> {
        match target {
            Target::Server(node, address) => self.to(address, node, &self.servers).await,
            Target::Sentinel(node, address) => {
                let mut sentinels = self.sentinels.iter();
                let known = sentinels.find(|(sentinel, _)| sentinel == node);
                let access = known.map_or(&self.servers, |(_, access)| access);
                self.to(address, node, access).await
            }
            _ => self.to_socket().await,
        }
    }

    fn command(job: &Job<'_>, with_text: bool) -> Cmd {
        command(job, with_text)
    }

    async fn send(connection: &mut OpenConnection, command: Cmd) -> RedisResult<Value> {
        connection.send(command).await
    }

    async fn send_all(
        connection: &mut OpenConnection,
        commands: Vec<Cmd>,
    ) -> Vec<RedisResult<Value>> {
        connection.send_all(commands).await
    }

    async fn send_to(
        connection: &mut OpenConnection,
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

    fn redirect(error: &RedisError) -> Option<&str> {
        error.redirect_node().map(|(address, _slot)| address)
    }

    fn is_cluster(connection: &OpenConnection) -> bool {
        connection.is_cluster()
    }

    fn is_open(connection: &OpenConnection) -> bool {
        connection.is_open()
    }

    fn abort(connection: OpenConnection) {
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
    use limiter_lua::Fault;

    use super::*;

    #[test]
    fn error_inside_a_batch_means_what_it_means_alone() {
        let failure = |words| failure(&Connector::error_reply(words));
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
