//! A store on a real server, as the laws want it.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::expect_used,
    clippy::panic,
    reason = "this is a test; each file uses its own part"
)]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use limiter_core::{Clock, RateLimiterRepository};
use limiter_redis::{Endpoint, KeyLayout, RedisStore};
use limiter_testkit::server::{Flavour, RedisCluster, RedisServer};
use limiter_testkit::{ManualClock, ManualRandom, StoreUnderTest};

/// Long enough for a crowded machine: the deadline is tested elsewhere.
pub const PATIENT: Duration = Duration::from_secs(5);

pub static REDIS: LazyLock<RedisServer> =
    LazyLock::new(|| RedisServer::start(Flavour::Redis).expect("Redis starts"));
pub static VALKEY: LazyLock<RedisServer> =
    LazyLock::new(|| RedisServer::start(Flavour::Valkey).expect("Valkey starts"));
pub static CLUSTER: LazyLock<RedisCluster> =
    LazyLock::new(|| RedisCluster::start(Flavour::Redis).expect("a cluster starts"));

/// What the README grants, for the prefixes of tests.
const ACL: &str = "limiter on >secret ~t* resetchannels -@all +evalsha +eval +hget +hmget +hset +hdel +get +set +del +pttl +pexpire \
                   +time +ping";
pub static RESTRICTED: LazyLock<RedisServer> = LazyLock::new(|| {
    let server = RedisServer::builder(Flavour::Redis).with_acl_user(ACL);
    server.start().expect("Redis starts")
});

/// Returns a layout that no other test has.
pub fn layout() -> KeyLayout {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let nth = NEXT.fetch_add(1, Ordering::Relaxed);
    KeyLayout::new(format!("t{}-{nth}", std::process::id())).expect("a sound prefix")
}

/// A store on servers, with clock and chance in the test's hand.
pub struct Rig {
    pub store: Arc<RedisStore>,
    pub layout: KeyLayout,
    pub clock: ManualClock,
    random: ManualRandom,
    pub nodes: Vec<&'static RedisServer>,
}

impl Rig {
    pub fn on_server(server: &'static RedisServer) -> Self {
        let endpoint = Endpoint::standalone(&server.url()).expect("a URL");
        Self::new(endpoint, vec![server])
    }

    /// Takes a server on which the store may do no more than the README asks for.
    pub fn restricted(server: &'static RedisServer) -> Self {
        let url = server.url_as("limiter", "secret");
        Self::new(url.parse().expect("a URL"), vec![server])
    }

    pub fn on_cluster(cluster: &'static RedisCluster) -> Self {
        let endpoint = Endpoint::cluster(cluster.urls()).expect("URLs");
        Self::new(endpoint, cluster.nodes().collect())
    }

    pub fn new(endpoint: Endpoint, nodes: Vec<&'static RedisServer>) -> Self {
        let (clock, random, layout) = (ManualClock::new(), ManualRandom::new(), layout());
        let store = RedisStore::builder(endpoint)
            .with_layout(layout.clone())
            .with_deadline(PATIENT)
            .with_clock(Arc::new(clock.clone()))
            .with_random(Arc::new(random.clone()))
            .build()
            .expect("a store");
        Self {
            store: Arc::new(store),
            layout,
            clock,
            random,
            nodes,
        }
    }

    fn keys(&self) -> Vec<(&'static RedisServer, Vec<u8>)> {
        let of = |node: &'static RedisServer| {
            let keys = node.keys().expect("keys");
            keys.into_iter()
                .filter(|key| self.layout.key_bytes(key).is_some())
                .map(move |key| (node, key))
        };
        self.nodes.iter().flat_map(|node| of(node)).collect()
    }
}

/// Returns the moment at which the server may delete a key, by the rule in `chain.lua`, and checks that it has a TTL.
fn lives_until_us(node: &RedisServer, key: &[u8]) -> u64 {
    let ttl = node.command(&[&b"PTTL"[..], key]).expect("PTTL").int();
    assert!(ttl.expect("a number") > 0, "a key without a TTL");
    let fields = node.command(&[&b"HVALS"[..], key]).expect("HVALS");
    let ends = fields.items().iter().map(|state| {
        let limiter_testkit::server::Reply::Bulk(state) = state else {
            panic!("a state is bytes")
        };
        limiter_lua::read_state("any", state)
            .expect("a state")
            .expires_at_us()
    });
    (ends.max().expect("a field") / 5_000_000 + 1) * 5_000_000 + 1_000_000
}

impl StoreUnderTest for Rig {
    fn store(&self) -> Arc<dyn RateLimiterRepository> {
        self.store.clone()
    }

    fn clock(&self) -> ManualClock {
        self.clock.clone()
    }

    fn random(&self) -> ManualRandom {
        self.random.clone()
    }

    async fn tracked_keys(&self) -> usize {
        self.keys().len()
    }

    async fn forget_idle(&self) {
        let now_us = self.clock.now().as_micros();
        for (node, key) in self.keys() {
            if lives_until_us(node, &key) <= now_us {
                node.command(&[&b"DEL"[..], &key]).expect("DEL");
            }
        }
    }
}
