//! [`Connection`]: what calls are sent on.

use limiter_lua::{Job, Redirect, Route};
use redis::aio::{ConnectionManager, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::{Cmd, RedisResult, Value};

/// A connection of redis-rs that many calls share: one of those that the store makes, or one that the user has.
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

impl Connection {
    /// Sends `job` where and how `route` says, and returns its reply.
    pub(crate) async fn send(&mut self, job: &Job<'_>, route: &Route) -> RedisResult<Value> {
        let command = command(job, route.with_text);
        match (self, &route.redirect) {
            (Self::Cluster(cluster), Some(redirect)) => {
                Box::pin(send_to(cluster, command, redirect)).await
            }
            (Self::Cluster(cluster), None) => command.query_async(cluster).await,
            (Self::Multiplexed(connection), _) => {
                let reply = connection.send_packed_command(&command).await?;
                reply.extract_error()
            }
            (Self::Managed(connection), _) => command.query_async(connection).await,
        }
    }
}

/// Room for a call under two plans, so that the command does not grow bit by bit.
const ARGS: usize = 8;
const BYTES: usize = 192;

fn command(job: &Job<'_>, with_text: bool) -> Cmd {
    let mut command = Cmd::with_capacity(ARGS, BYTES);
    command.arg(job.verb(with_text));
    if let Some(script) = job.script_arg(with_text) {
        command.arg(script).arg(job.keys());
    }
    command.arg(job.key());
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
        host: redirect.host.clone(),
        port: redirect.port,
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

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Multiplexed(_) => "Multiplexed",
            Self::Managed(_) => "Managed",
            Self::Cluster(_) => "Cluster",
        })
    }
}
