//! [`Connection`]: what calls are sent on.

use std::sync::Arc;

use limiter_lua::{Job, Redirect};
use redis::aio::{ConnectionManager, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, RedisConnectionInfo, RedisError, RedisResult, Value,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;

/// A connection of redis-rs that the user has and that many calls share.
#[derive(Clone)]
#[non_exhaustive]
pub enum Connection {
    /// One connection to one server.
    Multiplexed(MultiplexedConnection),
    /// One connection to one server, which redis-rs replaces when it breaks.
    Managed(ConnectionManager),
    /// Connections to the nodes of a cluster. Made with `retries(0)`: redis-rs runs a call again whose reply was lost.
    Cluster(ClusterConnection),
}

/// A connection as it is used: with the task that drives it, if it is the store's own.
#[derive(Clone)]
pub(crate) struct OpenConnection {
    connection: Connection,
    task: Option<Arc<DrivingTask>>,
}

/// The task that drives a connection. It ends with the last one that uses it, whatever the server does.
struct DrivingTask(AbortHandle);

impl Drop for DrivingTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How many commands may wait for the socket at once before callers wait for room; redis-rs says 50.
const PIPELINE_BUFFER: usize = 512;

impl OpenConnection {
    /// Takes a connection of the user's.
    pub(crate) const fn given(connection: Connection) -> Self {
        Self {
            connection,
            task: None,
        }
    }

    /// Begins to speak to a server on a stream.
    pub(crate) async fn own<S>(settings: &RedisConnectionInfo, stream: S) -> RedisResult<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // The store wraps every call in its own deadline; a second timer for each would only cost.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(PIPELINE_BUFFER);
        let settings = settings.clone().set_skip_set_lib_name();
        let (connection, driving) =
            MultiplexedConnection::new_with_config(&settings, stream, config).await?;
        let task = DrivingTask(tokio::spawn(driving).abort_handle());
        Ok(Self {
            connection: Connection::Multiplexed(connection),
            task: Some(Arc::new(task)),
        })
    }

    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self.connection, Connection::Cluster(_))
    }

    /// Ends a connection of the store's own, whoever waits for it.
    pub(crate) fn abort(&self) {
        if let Some(task) = &self.task {
            task.0.abort();
        }
    }

    /// Returns whether the connection is driven still, if that is the store's affair.
    pub(crate) fn is_open(&self) -> bool {
        self.task.as_ref().is_none_or(|task| !task.0.is_finished())
    }

    /// Sends `command`, and returns its reply.
    pub(crate) async fn send(&mut self, command: Cmd) -> RedisResult<Value> {
        match &mut self.connection {
            Connection::Cluster(cluster) => command.query_async(cluster).await,
            Connection::Multiplexed(connection) => {
                let reply = connection.send_packed_command(&command).await?;
                reply.extract_error()
            }
            Connection::Managed(connection) => command.query_async(connection).await,
        }
    }

    /// Sends `commands` to one server in one go, and returns their replies. Not to a cluster: redis-rs would take them apart,
    /// and send parts of them again.
    pub(crate) async fn send_all(&mut self, commands: Vec<Cmd>) -> Vec<RedisResult<Value>> {
        let count = commands.len();
        let mut pipeline = redis::Pipeline::with_capacity(count);
        for command in commands {
            pipeline.add_command(command);
        }
        let replies = match &mut self.connection {
            Connection::Cluster(_) => Err(RedisError::from((
                ErrorKind::ClusterConnectionNotFound,
                "several commands at once go to one server",
            ))),
            Connection::Multiplexed(one) => one.send_packed_commands(&pipeline, 0, count).await,
            Connection::Managed(one) => one.send_packed_commands(&pipeline, 0, count).await,
        };
        match replies {
            Ok(replies) => replies.into_iter().map(Value::extract_error).collect(),
            Err(error) => vec![Err(error); count],
        }
    }

    /// Sends `command` to the node that another named.
    pub(crate) async fn send_to(&mut self, command: Cmd, node: &Redirect) -> RedisResult<Value> {
        match &mut self.connection {
            Connection::Cluster(cluster) => send_to(cluster, command, node).await,
            _ => self.send(command).await,
        }
    }
}

/// Room for the name of the command, a script's name, the number of keys and the first key.
const HEAD_ARGS: usize = 4;
const HEAD_BYTES: usize = 96;

pub(crate) fn command(job: &Job<'_>, with_text: bool) -> Cmd {
    // So that the command does not grow bit by bit.
    let bytes: usize = job.rest().map(<[u8]>::len).sum();
    let mut command = Cmd::with_capacity(HEAD_ARGS + job.rest().len(), HEAD_BYTES + bytes);
    command.arg(job.verb(with_text));
    if let Some(script) = job.script_arg(with_text) {
        command.arg(script).arg(job.keys());
    }
    if job.keys() > 0 {
        command.arg(job.key());
    }
    for arg in job.rest() {
        command.arg(arg);
    }
    command
}

/// Sends `command` to the node that another named, after ASKING if it was told so.
async fn send_to(
    cluster: &mut ClusterConnection,
    command: Cmd,
    redirect: &Redirect,
) -> RedisResult<Value> {
    let node = SingleNodeRoutingInfo::ByAddress {
        host: redirect.node.host().to_owned(),
        port: redirect.node.port(),
    };
    if !redirect.asking {
        let routing = RoutingInfo::SingleNode(node);
        return cluster
            .route_command(command, routing)
            .await?
            .extract_error();
    }
    let mut pipeline = redis::pipe();
    pipeline.add_command(redis::cmd("ASKING")).ignore();
    pipeline.add_command(command);
    let replies = cluster.route_pipeline(pipeline, 0, 2, node).await?;
    replies
        .into_iter()
        .next_back()
        .unwrap_or(Value::Nil)
        .extract_error()
}

impl From<MultiplexedConnection> for Connection {
    fn from(connection: MultiplexedConnection) -> Self {
        Self::Multiplexed(connection)
    }
}

impl From<ConnectionManager> for Connection {
    fn from(connection: ConnectionManager) -> Self {
        Self::Managed(connection)
    }
}

impl From<ClusterConnection> for Connection {
    fn from(connection: ClusterConnection) -> Self {
        Self::Cluster(connection)
    }
}

impl std::fmt::Debug for OpenConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.connection.fmt(f)
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Multiplexed(_) => "Multiplexed",
            Self::Managed(_) => "Managed",
            Self::Cluster(_) => "Cluster",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::failure;
    use limiter_lua::Failure;
    use limiter_testkit::server::{Flavour, RedisCluster};
    use redis::cluster::ClusterClient;

    #[test]
    fn several_commands_at_once_are_not_sent_to_a_cluster() {
        let cluster = RedisCluster::start(Flavour::Redis).expect("a cluster");
        let replies = limiter_testkit::block_on(async {
            let client = ClusterClient::new(cluster.urls()).expect("a client");
            let connection = client.get_async_connection().await.expect("a connection");
            let set = |key| redis::cmd("SET").arg(key).arg(1).take();
            let mut connection = OpenConnection::given(connection.into());
            connection.send_all(vec![set("ann"), set("bob")]).await
        });
        let failures: Vec<_> = replies
            .iter()
            .map(|reply| reply.as_ref().map_err(failure))
            .collect();
        assert_eq!(failures, [Err(Failure::NotSent); 2]);
        for node in cluster.nodes() {
            assert!(node.keys().expect("keys").is_empty());
        }
    }
}
