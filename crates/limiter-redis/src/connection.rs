//! [`Connection`]: what calls are sent on.

use redis::aio::{ConnectionManager, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::{Cmd, RedisError, RedisResult, Value};

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

/// Where and how a script is to be run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Route {
    /// Send the whole script: the server does not have it.
    pub(crate) with_text: bool,
    /// The node that the last one named instead of itself.
    pub(crate) redirect: Option<Redirect>,
}

#[derive(Clone, Debug)]
pub(crate) struct Redirect {
    host: String,
    port: u16,
    asking: bool,
}

impl Redirect {
    /// Reads the node that a MOVED or ASK reply names.
    pub(crate) fn from_error(error: &RedisError, asking: bool) -> Option<Self> {
        let (address, _slot) = error.redirect_node()?;
        let (host, port) = address.rsplit_once(':')?;
        Some(Self {
            host: host.to_owned(),
            port: port.parse().ok()?,
            asking,
        })
    }

    fn routing(&self) -> SingleNodeRoutingInfo {
        SingleNodeRoutingInfo::ByAddress {
            host: self.host.clone(),
            port: self.port,
        }
    }
}

impl Connection {
    /// Sends `command` where `route` says, and returns its reply.
    pub(crate) async fn send(&mut self, command: Cmd, route: &Route) -> RedisResult<Value> {
        match (self, &route.redirect) {
            (Self::Cluster(cluster), Some(redirect)) => send_to(cluster, command, redirect).await,
            (Self::Cluster(cluster), None) => command.query_async(cluster).await,
            (Self::Multiplexed(connection), _) => command.query_async(connection).await,
            (Self::Managed(connection), _) => command.query_async(connection).await,
        }
    }

    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }
}

/// Sends `command` to the node that another named, after ASKING if it was told so.
async fn send_to(
    cluster: &mut ClusterConnection,
    command: Cmd,
    redirect: &Redirect,
) -> RedisResult<Value> {
    if !redirect.asking {
        let routing = RoutingInfo::SingleNode(redirect.routing());
        return cluster
            .route_command(command, routing)
            .await?
            .extract_error();
    }
    let mut pipeline = redis::pipe();
    pipeline.add_command(redis::cmd("ASKING")).ignore();
    pipeline.add_command(command);
    let replies = cluster
        .route_pipeline(pipeline, 0, 2, redirect.routing())
        .await?;
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
