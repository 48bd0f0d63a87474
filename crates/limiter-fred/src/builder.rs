//! [`FredStoreBuilder`]: what a store can be told.

use std::sync::Arc;
use std::time::Duration;

use limiter_core::{Clock, RandomSource};
use limiter_lua::{AddressMap, Connections, InvalidAddress, KeyLayout, Node, Runner, Settings};

use crate::connection::Connection;
use crate::connector::Connector;
use crate::endpoint::{Endpoint, InvalidEndpoint};
use crate::store::FredStore;
use fred::clients::Client;

/// Builds a [`FredStore`].
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use limiter_fred::{KeyLayout, FredStore};
///
/// let store = FredStore::builder("redis://127.0.0.1:6379".parse::<limiter_fred::Endpoint>()?)
///     .with_layout(KeyLayout::new("shop")?)
///     .with_deadline(Duration::from_millis(20))
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct FredStoreBuilder {
    source: Source,
    settings: Settings,
}

#[derive(Debug)]
enum Source {
    Endpoint(Box<Endpoint>),
    Clients(Vec<Client>),
}

impl FredStoreBuilder {
    /// The deadline of a call if none is named.
    pub const DEFAULT_DEADLINE: Duration = Settings::DEFAULT_DEADLINE;
    /// How long connecting may take if nothing is named. It goes on beyond the deadline of the call that began it.
    pub const DEFAULT_CONNECT_TIMEOUT: Duration = Settings::DEFAULT_CONNECT_TIMEOUT;

    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self::from_source(Source::Endpoint(Box::new(endpoint)))
    }

    pub(crate) fn from_clients(clients: Vec<Client>) -> Self {
        Self::from_source(Source::Clients(clients))
    }

    fn from_source(source: Source) -> Self {
        Self {
            source,
            settings: Settings::default(),
        }
    }

    /// Sets the layout of keys, and with it their prefix; `rl` if it is left out.
    pub fn with_layout(mut self, layout: KeyLayout) -> Self {
        self.settings.layout = layout;
        self
    }

    /// Sets how long a call may take, whatever the server does; 50 ms if it is left out.
    pub const fn with_deadline(mut self, deadline: Duration) -> Self {
        self.settings.deadline = deadline;
        self
    }

    /// Sets how long connecting may take; a second if it is left out.
    pub const fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// Sets where nodes are reached that servers name: in a cluster's list of slots, in a redirection, or as a sentinel's primary. A
    /// network that translates addresses needs it; nodes are reached where they say if it is left out.
    ///
    /// # Examples
    /// ```
    /// use limiter_fred::{Endpoint, FredStore, Node};
    ///
    /// // The nodes call themselves 10.0.0.x; from here they are ports of one host.
    /// let store = FredStore::builder("redis+cluster://cluster.example:7000".parse::<Endpoint>()?)
    ///     .with_address_map(|node| Node::new("cluster.example", node.port()))
    ///     .build()?;
    /// # Ok::<(), limiter_fred::InvalidEndpoint>(())
    /// ```
    pub fn with_address_map(mut self, map: impl Fn(Node) -> Node + Send + Sync + 'static) -> Self {
        self.settings.address_map = AddressMap::new(map);
        self
    }

    /// Sets how many connections calls are spread over, in a cluster to each node; one if it is left out, which carries many calls at
    /// once.
    /// [`PoolSizing`](crate::PoolSizing) tells how many a load needs. A store on connections of the user's has those.
    pub const fn with_connections(mut self, connections: Connections) -> Self {
        self.settings.connections = connections;
        self
    }

    /// Sends every call with its own keys alone. Otherwise, of calls of one script that are ready at the same time, 4 to 32 are one
    /// call with the keys of all.
    ///
    /// Say so behind a proxy that spreads keys over several servers by the first key of a call, such as twemproxy or Envoy: the
    /// other keys of a joint call would be kept where nobody looks for them. A Redis Cluster needs no such thing.
    ///
    /// Sessions then send two calls for a visit, one on the keys of its session and one on those of its address. The proxy has to
    /// keep together what has the same text between braces: `hash_tag: "{}"` of twemproxy, `enable_hashtagging` of Envoy.
    pub const fn with_calls_apart(mut self) -> Self {
        self.settings.keeps_calls_apart = true;
        self
    }

    /// Sets where suppressing windows draw from.
    pub fn with_random(mut self, random: Arc<dyn RandomSource>) -> Self {
        self.settings.random = random;
        self
    }

    /// Decides by `clock` and not by the server's: for tests alone. Nodes with clocks of their own do not agree.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.settings.clock = Some(clock);
        self
    }

    /// Builds the store. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidEndpoint`] if the client refuses the addresses, or nothing was given to call on.
    pub fn build(self) -> Result<FredStore, InvalidEndpoint> {
        self.build_runner().map(FredStore)
    }

    pub(crate) fn build_runner(self) -> Result<Runner<Connector>, InvalidEndpoint> {
        match self.source {
            Source::Endpoint(endpoint) => {
                let (connector, servers) = endpoint.into_parts(self.settings.connect_timeout);
                Ok(Runner::new(connector, servers, self.settings))
            }
            Source::Clients(clients) => {
                let connections = clients.into_iter();
                let connections = connections.map(Connection::given);
                let runner = Runner::on(connections, self.settings);
                Ok(runner.ok_or(InvalidAddress::NoNodes)?)
            }
        }
    }
}
