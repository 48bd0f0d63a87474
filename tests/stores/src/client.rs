//! [`Client`]: which adapter, and the stores that it makes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use limiter_lua::{Connections, KeyLayout, Node};
use limiter_sessions::TagKey;
use limiter_testkit::ManualClock;

use crate::{Attempts, Sessions, Store, timed, timed_attempts, timed_sessions};

/// Which adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    Redis,
    Fred,
}

impl Client {
    /// Makes a store on `address`, in any form that both adapters know. Each of its calls has to end by its deadline.
    pub fn store(self, address: &str, layout: &KeyLayout, deadline: Duration) -> Store {
        self.pooled_store(address, layout, deadline, Connections::ONE)
    }

    /// Makes a store that spreads its calls over so many connections.
    pub fn pooled_store(
        self,
        address: &str,
        layout: &KeyLayout,
        deadline: Duration,
        connections: Connections,
    ) -> Store {
        let store: Store = match self {
            Self::Redis => {
                let store = redis_rs(address, layout, deadline).with_connections(connections);
                Arc::new(store.build().expect("a store"))
            }
            Self::Fred => {
                let store = fred(address, layout, deadline).with_connections(connections);
                Arc::new(store.build().expect("a store"))
            }
        };
        timed(store, deadline)
    }

    /// Makes a store that reaches nodes at other ports than they say.
    pub fn store_with_ports(
        self,
        address: &str,
        layout: &KeyLayout,
        deadline: Duration,
        ports: HashMap<u16, u16>,
    ) -> Store {
        let map = move |node: Node| {
            let port = ports.get(&node.port());
            Node::new(node.host(), *port.unwrap_or(&node.port()))
        };
        let store: Store = match self {
            Self::Redis => {
                let store = redis_rs(address, layout, deadline).with_address_map(map);
                Arc::new(store.build().expect("a store"))
            }
            Self::Fred => {
                let store = fred(address, layout, deadline).with_address_map(map);
                Arc::new(store.build().expect("a store"))
            }
        };
        timed(store, deadline)
    }

    /// Makes a store that sends every call with its own keys alone.
    pub fn store_apart(self, address: &str, layout: &KeyLayout, deadline: Duration) -> Store {
        let store: Store = match self {
            Self::Redis => {
                let store = redis_rs(address, layout, deadline).with_calls_apart();
                Arc::new(store.build().expect("a store"))
            }
            Self::Fred => {
                let store = fred(address, layout, deadline).with_calls_apart();
                Arc::new(store.build().expect("a store"))
            }
        };
        timed(store, deadline)
    }

    /// Makes a store of attempts on `address`.
    pub fn attempts(self, address: &str, layout: &KeyLayout, deadline: Duration) -> Attempts {
        let store: Attempts = match self {
            Self::Redis => {
                let store = redis_rs(address, layout, deadline).build();
                Arc::new(store.expect("a store"))
            }
            Self::Fred => Arc::new(fred(address, layout, deadline).build().expect("a store")),
        };
        timed_attempts(store, deadline)
    }

    /// Makes a store that decides by `clock`.
    pub fn store_by(
        self,
        clock: ManualClock,
        address: &str,
        layout: &KeyLayout,
        deadline: Duration,
    ) -> Store {
        let store: Store = match self {
            Self::Redis => {
                let store = redis_rs(address, layout, deadline).with_clock(Arc::new(clock));
                Arc::new(store.build().expect("a store"))
            }
            Self::Fred => {
                let store = fred(address, layout, deadline).with_clock(Arc::new(clock));
                Arc::new(store.build().expect("a store"))
            }
        };
        timed(store, deadline)
    }

    /// Makes a store of attempts that decides by `clock`.
    pub fn attempts_by(
        self,
        clock: ManualClock,
        address: &str,
        layout: &KeyLayout,
        deadline: Duration,
    ) -> Attempts {
        let store: Attempts = match self {
            Self::Redis => {
                let store = redis_rs(address, layout, deadline).with_clock(Arc::new(clock));
                Arc::new(store.build().expect("a store"))
            }
            Self::Fred => {
                let store = fred(address, layout, deadline).with_clock(Arc::new(clock));
                Arc::new(store.build().expect("a store"))
            }
        };
        timed_attempts(store, deadline)
    }

    /// Makes a store of sessions on `address`, in any form that both adapters know.
    pub fn sessions(self, address: &str, layout: &KeyLayout, deadline: Duration) -> Sessions {
        let tags = TagKey::new([7; 32]).expect("a secret");
        let store = match self {
            Self::Redis => redis_rs(address, layout, deadline)
                .build_sessions(tags)
                .expect("a store"),
            Self::Fred => fred(address, layout, deadline)
                .build_sessions(tags)
                .expect("a store"),
        };
        timed_sessions(store, deadline)
    }

    /// Makes a store of sessions that sends every call with its own keys alone.
    pub fn sessions_apart(self, address: &str, layout: &KeyLayout, deadline: Duration) -> Sessions {
        let tags = TagKey::new([7; 32]).expect("a secret");
        let store = match self {
            Self::Redis => redis_rs(address, layout, deadline)
                .with_calls_apart()
                .build_sessions(tags)
                .expect("a store"),
            Self::Fred => fred(address, layout, deadline)
                .with_calls_apart()
                .build_sessions(tags)
                .expect("a store"),
        };
        timed_sessions(store, deadline)
    }
}

/// What a user needs besides behind sentinels.
pub const BEHIND_SENTINELS: &str = "+role";
/// What a user needs besides in a cluster.
pub const IN_A_CLUSTER: &str = "+cluster|slots +asking";
/// What a user needs besides in a database other than 0.
pub const OTHER_DATABASE: &str = "+select";

fn redis_rs(
    address: &str,
    layout: &KeyLayout,
    deadline: Duration,
) -> limiter_redis::RedisStoreBuilder {
    let endpoint = address.parse::<limiter_redis::Endpoint>();
    limiter_redis::RedisStore::builder(endpoint.expect("an address"))
        .with_layout(layout.clone())
        .with_deadline(deadline)
        .with_connect_timeout(connect_timeout(deadline))
}

fn fred(address: &str, layout: &KeyLayout, deadline: Duration) -> limiter_fred::FredStoreBuilder {
    let endpoint = address.parse::<limiter_fred::Endpoint>();
    limiter_fred::FredStore::builder(endpoint.expect("an address"))
        .with_layout(layout.clone())
        .with_deadline(deadline)
        .with_connect_timeout(connect_timeout(deadline))
}

/// A store that is patient with a crowded machine is so from the start: many clients connect at once.
fn connect_timeout(deadline: Duration) -> Duration {
    deadline.max(limiter_redis::RedisStoreBuilder::DEFAULT_CONNECT_TIMEOUT)
}
