//! [`Stage`]: the servers of a test in which something fails, looked at once more when it is over.

use std::sync::{Arc, Mutex, PoisonError};

use limiter_testkit::proxy::FaultProxy;
use limiter_testkit::server::{Flavour, RedisCluster, RedisSentinel, RedisServer, ServerBuilder};

use crate::{Client, no_immortal_keys};

/// The client and the servers of a test in which something fails.
///
/// Whatever the fault, it leaves no key for ever: that is looked at when the test is over, by the macro that made it a test.
/// So the servers live until then.
pub struct Stage {
    pub client: Client,
    pub flavour: Flavour,
    watched: Mutex<Vec<Arc<dyn Servers>>>,
}

/// One or more servers that keep data.
pub trait Servers: Send + Sync {
    fn nodes(&self) -> Vec<&RedisServer>;
}

impl Stage {
    #[must_use]
    pub fn new(client: Client, flavour: Flavour) -> Self {
        Self {
            client,
            flavour,
            watched: Mutex::default(),
        }
    }

    /// Starts a server with nothing but defaults.
    pub fn server(&self) -> Arc<RedisServer> {
        self.start(self.builder())
    }

    #[must_use]
    pub fn builder(&self) -> ServerBuilder {
        RedisServer::builder(self.flavour)
    }

    pub fn start(&self, server: ServerBuilder) -> Arc<RedisServer> {
        self.watch(server.start().expect("the server starts"))
    }

    /// Starts a server, and a proxy before it.
    pub async fn proxied(&self) -> (Arc<RedisServer>, FaultProxy) {
        let server = self.server();
        let proxy = FaultProxy::start(server.addr()).await.expect("a proxy");
        (server, proxy)
    }

    /// Starts a cluster of three masters.
    pub fn cluster(&self) -> Arc<RedisCluster> {
        self.watch(RedisCluster::start(self.flavour).expect("a cluster"))
    }

    /// Keeps servers until the test is over, to look at them then.
    pub fn watch<S: Servers + 'static>(&self, servers: S) -> Arc<S> {
        let servers = Arc::new(servers);
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.push(servers.clone());
        servers
    }

    /// Checks that no key would stay for ever on any server that the test has not killed.
    pub fn no_immortal_keys(&self) {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!watched.is_empty(), "no server of the test is watched");
        let nodes = watched.iter().flat_map(|servers| servers.nodes());
        for node in nodes.filter(|node| node.pid().is_some()) {
            if node.is_paused() {
                node.resume().expect("goes on");
            }
            no_immortal_keys(node);
        }
    }
}

impl Servers for RedisServer {
    fn nodes(&self) -> Vec<&RedisServer> {
        vec![self]
    }
}

/// A replica has what its primary has, and sends who asks for a key to that.
impl Servers for RedisCluster {
    fn nodes(&self) -> Vec<&RedisServer> {
        let is_replica = |node: &RedisServer| {
            let role = node.info("replication");
            role.is_ok_and(|info| info.get("role").is_some_and(|role| role == "slave"))
        };
        self.nodes().filter(|node| !is_replica(node)).collect()
    }
}

impl Servers for RedisSentinel {
    fn nodes(&self) -> Vec<&RedisServer> {
        self.data_nodes().iter().collect()
    }
}
