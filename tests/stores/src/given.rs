//! Connections as users have them, whose reconnecting is their own affair.

use limiter_fred::fred::clients::Client as FredClient;
use limiter_fred::fred::prelude::{
    Builder, ClientLike as _, Config, ReconnectPolicy, ServerConfig,
};
use limiter_redis::redis;
use limiter_redis::redis::aio::{ConnectionManager, ConnectionManagerConfig};
use limiter_redis::redis::cluster::ClusterClientBuilder;
use limiter_redis::redis::cluster_async::ClusterConnection;

use crate::PATIENT;

/// Connects redis-rs to one server.
pub async fn redis_manager(url: &str) -> ConnectionManager {
    let client = redis::Client::open(url).expect("a client");
    let config = ConnectionManagerConfig::new()
        .set_connection_timeout(Some(PATIENT))
        .set_response_timeout(Some(PATIENT));
    let manager = ConnectionManager::new_with_config(client, config).await;
    manager.expect("connects")
}

/// Connects redis-rs to a cluster, as the store's documentation wants it.
pub async fn redis_cluster(ports: &[u16]) -> ClusterConnection {
    let nodes = ports.iter().map(|port| format!("redis://127.0.0.1:{port}"));
    let cluster = ClusterClientBuilder::new(nodes)
        .retries(0)
        .connection_timeout(PATIENT)
        .response_timeout(PATIENT)
        .build();
    let connection = cluster.expect("a client").get_async_connection().await;
    connection.expect("connects")
}

/// Connects fred to one server.
pub async fn fred_client(url: &str) -> FredClient {
    fred_of(Config::from_url(url).expect("a URL")).await
}

/// Connects fred to a cluster.
pub async fn fred_cluster(ports: &[u16]) -> FredClient {
    let hosts = ports.iter().map(|port| ("127.0.0.1", *port)).collect();
    let config = Config {
        server: ServerConfig::new_clustered(hosts),
        ..Config::default()
    };
    fred_of(config).await
}

async fn fred_of(config: Config) -> FredClient {
    let policy = ReconnectPolicy::new_constant(0, 20);
    let client = Builder::from_config(config).set_policy(policy).build();
    let client = client.expect("a client");
    client.init().await.expect("connects");
    client
}
