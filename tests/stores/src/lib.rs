//! What tests of shared stores have in common: every client, every arrangement of servers, and checks that hold whatever
//! goes wrong.
#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "these are tests, in a library so that several files share them"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use limiter_core::{Cost, Key, Plan, RateLimiterRepository, StoreError, Verdict};
use limiter_lua::{Connections, KeyLayout};
use limiter_sessions::{SessionPorts, TagKey};
use limiter_testkit::server::RedisServer;

pub type Store = Arc<dyn RateLimiterRepository>;
pub type Sessions = Arc<dyn SessionPorts>;

/// The deadline that the README promises.
pub const DEADLINE: Duration = Duration::from_millis(50);
/// What a call may take beyond its deadline.
const SLACK: Duration = Duration::from_millis(25);
/// What no call may take by the clock on the wall, however crowded the machine: a thread was blocked then.
const BLOCKED: Duration = Duration::from_secs(2);
/// Long enough for a crowded machine, where the deadline is not what is tested.
pub const PATIENT: Duration = Duration::from_secs(5);

/// Which adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    Redis,
    Fred,
}

impl Client {
    /// Makes a store on `address`, in any form that both adapters know.
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
        match self {
            Self::Redis => {
                let endpoint = address
                    .parse::<limiter_redis::Endpoint>()
                    .expect("an address");
                let store = limiter_redis::RedisStore::builder(endpoint)
                    .with_layout(layout.clone())
                    .with_deadline(deadline)
                    .with_connections(connections)
                    .build();
                Arc::new(store.expect("a store"))
            }
            Self::Fred => {
                let endpoint = address
                    .parse::<limiter_fred::Endpoint>()
                    .expect("an address");
                let store = limiter_fred::FredStore::builder(endpoint)
                    .with_layout(layout.clone())
                    .with_deadline(deadline)
                    .with_connections(connections)
                    .build();
                Arc::new(store.expect("a store"))
            }
        }
    }
}

impl Client {
    /// Makes a store of sessions on `address`, in any form that both adapters know.
    pub fn sessions(self, address: &str, layout: &KeyLayout, deadline: Duration) -> Sessions {
        let tags = TagKey::new([7; 32]).expect("a secret");
        match self {
            Self::Redis => {
                let endpoint = address
                    .parse::<limiter_redis::Endpoint>()
                    .expect("an address");
                let store = limiter_redis::RedisStore::builder(endpoint)
                    .with_layout(layout.clone())
                    .with_deadline(deadline)
                    .build_sessions(tags);
                store.expect("a store")
            }
            Self::Fred => {
                let endpoint = address
                    .parse::<limiter_fred::Endpoint>()
                    .expect("an address");
                let store = limiter_fred::FredStore::builder(endpoint)
                    .with_layout(layout.clone())
                    .with_deadline(deadline)
                    .build_sessions(tags);
                store.expect("a store")
            }
        }
    }
}

/// Returns a layout that no other test has.
#[must_use]
pub fn layout() -> KeyLayout {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let nth = NEXT.fetch_add(1, Ordering::Relaxed);
    KeyLayout::new(format!("f{}-{nth}", std::process::id())).expect("a sound prefix")
}

#[must_use]
pub fn key(name: &str) -> Key {
    Key::new(name).expect("a key")
}

#[must_use]
pub fn plan(name: &str, limit: &str) -> Plan {
    Plan::new(name, limit).expect("a plan")
}

/// A bucket that does not refill while a test runs.
#[must_use]
pub fn bucket(capacity: u32) -> Plan {
    plan("gold", &format!("1/h burst {capacity}"))
}

/// Spends one unit and checks that the call kept to its deadline.
///
/// # Errors
/// What the store says.
pub async fn spend_in_time(store: &Store, key: &Key, plan: &Plan) -> Result<Verdict, StoreError> {
    in_time(store.try_acquire(key, std::slice::from_ref(plan), Cost::ONE)).await
}

/// Checks that a call keeps to its deadline.
///
/// That is told by the runtime's own timers: a call that is over before a timer of deadline and slack fires was in time. When
/// the machine is so crowded that both are late, the call is looked at first.
pub async fn in_time<T>(call: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let said = tokio::time::timeout(DEADLINE + SLACK, call).await;
    let took = began.elapsed();
    assert!(took < BLOCKED, "a call took {took:?}");
    said.expect("a call outlived its deadline by 25 ms")
}

/// Calls until the store answers again, for `limit` at most; returns how long that took.
pub async fn recovers(store: &Store, plan: &Plan, limit: Duration) -> Duration {
    let began = Instant::now();
    let probe = key("probe of recovery");
    loop {
        match spend_in_time(store, &probe, plan).await {
            Ok(_) => return began.elapsed(),
            Err(error) => assert!(
                began.elapsed() < limit,
                "no recovery in {limit:?}: {error:?}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns how many units are spent under `plan`, by the store itself.
pub async fn spent(store: &Store, key: &Key, plan: &Plan) -> u32 {
    let said = store
        .peek(key, std::slice::from_ref(plan), Cost::ONE)
        .await
        .expect("an answer");
    plan.limit().units() - said.plans[0].remaining
}

/// Checks that no key of a server would stay for ever.
pub fn no_immortal_keys(server: &RedisServer) {
    let immortal = server.keys_without_ttl().expect("an answer");
    assert!(immortal.is_empty(), "keys without a TTL: {immortal:?}");
}

/// Makes a test of each function for every client.
#[macro_export]
macro_rules! on_clients {
    ($($test:ident)*) => {
        $crate::on_clients! { @redis_rs Redis $($test)* }
        $crate::on_clients! { @fred Fred $($test)* }
    };
    (@$module:ident $client:ident $($test:ident)*) => {
        mod $module {
            $(
                #[test]
                fn $test() {
                    limiter_testkit::block_on(super::$test($crate::Client::$client));
                }
            )*
        }
    };
}

/// Makes a test of each function for every client on Redis and on Valkey.
#[macro_export]
macro_rules! on_clients_and_servers {
    ($($test:ident)*) => {
        $crate::on_clients_and_servers! { @redis_rs_on_redis Redis Redis $($test)* }
        $crate::on_clients_and_servers! { @redis_rs_on_valkey Redis Valkey $($test)* }
        $crate::on_clients_and_servers! { @fred_on_redis Fred Redis $($test)* }
        $crate::on_clients_and_servers! { @fred_on_valkey Fred Valkey $($test)* }
    };
    (@$module:ident $client:ident $flavour:ident $($test:ident)*) => {
        mod $module {
            $(
                #[test]
                fn $test() {
                    let flavour = limiter_testkit::server::Flavour::$flavour;
                    limiter_testkit::block_on(super::$test($crate::Client::$client, flavour));
                }
            )*
        }
    };
}
