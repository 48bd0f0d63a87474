//! [`Arranged`]: a cluster, or a primary behind sentinels, as the place of a fault.

use std::sync::Arc;
use std::time::{Duration, Instant};

use limiter_core::{Key, Plan};
use limiter_lua::KeyLayout;
use limiter_testkit::proxy::FaultProxy;
use limiter_testkit::server::{RedisCluster, RedisSentinel, RedisServer};
use tokio::task::spawn_blocking;

use crate::{PATIENT, Stage, Store, key, layout, recovers_for};

/// How long a store may take to come back where nobody has to be elected.
pub const RECOVERY: Duration = Duration::from_secs(3);
/// Sentinels and clusters take a second or two to make up their mind, and a crowded machine longer.
pub const FAIL_OVER: Duration = Duration::from_secs(20);

/// Servers of one arrangement, each behind a proxy, and which of them has the key that the test is
/// about.
pub struct Arranged {
    pub proxies: Vec<FaultProxy>,
    pub address: String,
    pub layout: KeyLayout,
    pub user: Key,
    group: Group,
    hit: usize,
}

enum Group {
    Cluster(Arc<RedisCluster>),
    Sentinels(Arc<RedisSentinel>),
}

impl Group {
    fn servers(&self) -> Vec<&RedisServer> {
        match self {
            Self::Cluster(cluster) => cluster.nodes().collect(),
            Self::Sentinels(group) => group.data_nodes().iter().collect(),
        }
    }
}

impl Arranged {
    /// Three nodes that share the slots. Nobody stands in for one of them.
    pub async fn cluster(stage: &Stage) -> Self {
        Self::cluster_of(stage, 0).await
    }

    /// Three nodes that share the slots, and a replica of each.
    pub async fn cluster_with_replicas(stage: &Stage) -> Self {
        Self::cluster_of(stage, 1).await
    }

    async fn cluster_of(stage: &Stage, replicas: usize) -> Self {
        let node = stage
            .builder()
            .with_config("cluster-require-full-coverage no");
        let cluster = stage.watch(RedisCluster::start_with(node, replicas).expect("a cluster"));
        let mut proxies = Vec::new();
        for node in cluster.nodes() {
            proxies.push(FaultProxy::start(node.addr()).await.expect("a proxy"));
        }
        let ports: Vec<_> = proxies.iter().map(|proxy| proxy.addr().port()).collect();
        // On a thread of its own, for replicas now reach their primaries through the proxies.
        let (announcing, told) = (Arc::clone(&cluster), ports.clone());
        let announced = spawn_blocking(move || announcing.announce_ports(&told));
        announced.await.expect("no panic").expect("announced");
        let hosts: Vec<_> = ports
            .iter()
            .map(|port| format!("127.0.0.1:{port}"))
            .collect();
        let mut all = Self {
            proxies,
            address: format!("redis+cluster://{}", hosts.join(",")),
            layout: layout(),
            user: key("ann"),
            group: Group::Cluster(cluster),
            hit: 0,
        };
        all.hit = all.owner_of(&all.user);
        all
    }

    /// A primary and its replica, which stands in for it.
    pub async fn sentinels(stage: &Stage) -> Self {
        let mut group = RedisSentinel::start(stage.flavour).expect("sentinels");
        let mut proxies = Vec::new();
        for node in group.data_nodes() {
            proxies.push(FaultProxy::start(node.addr()).await.expect("a proxy"));
        }
        let ports = [proxies[0].addr().port(), proxies[1].addr().port()];
        // On a thread of its own, for the sentinels now reach the servers through the proxies.
        let group = spawn_blocking(move || group.announce_ports(ports).map(|()| group));
        let group = stage.watch(group.await.expect("no panic").expect("announced"));
        Self {
            proxies,
            address: group.address(),
            layout: layout(),
            user: key("ann"),
            group: Group::Sentinels(group),
            hit: 0,
        }
    }

    #[must_use]
    pub fn store(&self, stage: &Stage, deadline: Duration) -> Store {
        stage.client.store(&self.address, &self.layout, deadline)
    }

    /// Every server that keeps data.
    #[must_use]
    pub fn servers(&self) -> Vec<&RedisServer> {
        self.group.servers()
    }

    /// The server that has the key when all is well.
    #[must_use]
    pub fn server(&self) -> &RedisServer {
        self.servers()[self.hit]
    }

    #[must_use]
    pub fn proxy(&self) -> &FaultProxy {
        &self.proxies[self.hit]
    }

    /// Returns so many users whose keys are where that of the test is.
    #[must_use]
    pub fn users(&self, count: usize) -> Vec<Key> {
        let users = (0..).map(|nth| key(&format!("user {nth}")));
        let beside = users.filter(|user| self.owner_of(user) == self.hit);
        beside.take(count).collect()
    }

    /// The place of the server that has a key now.
    fn owner_of(&self, user: &Key) -> usize {
        let owner = match &self.group {
            Group::Cluster(cluster) => {
                let slot = cluster.slot_of(self.layout.name(user)).expect("a slot");
                cluster.primary_of(slot)
            }
            Group::Sentinels(group) => group.primary(),
        };
        let port = owner.expect("a primary").port();
        let place = self.servers().iter().position(|node| node.port() == port);
        place.expect("one of them")
    }

    /// Makes another server take the place of the one that has the key, although that one is well:
    /// a cluster because it is told to, sentinels because a primary that takes no writes is none.
    pub fn demote(&self) {
        match &self.group {
            Group::Cluster(cluster) => {
                let replica = cluster.nodes().nth(self.hit + 3).expect("a replica");
                replica.command(&["CLUSTER", "FAILOVER"]).expect("begins");
            }
            Group::Sentinels(_) => self.server().demote().expect("demoted"),
        }
    }

    /// Returns whether another server has the key now.
    #[must_use]
    pub fn is_taken_over(&self) -> bool {
        self.owner_of(&self.user) != self.hit
    }

    /// Waits until the replica has acknowledged all that was written so far.
    pub fn wait_until_replicated(&self) {
        let (began, written) = (Instant::now(), self.replicated().0);
        while self.replicated().1 < written {
            assert!(began.elapsed() < PATIENT, "the replica does not follow");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// How far the server has written, and its replica acknowledged.
    fn replicated(&self) -> (u64, u64) {
        let info = self.server().info("replication").expect("an answer");
        let number = |text: &str| text.trim().parse().unwrap_or_default();
        let replica = info.get("slave0").cloned().unwrap_or_default();
        let acknowledged = replica
            .split(',')
            .find_map(|part| part.strip_prefix("offset="));
        (
            number(&info["master_repl_offset"]),
            acknowledged.map_or(0, number),
        )
    }

    /// Waits until calls for the key are answered again, by the server that has it.
    pub async fn recovers(&self, store: &Store, plan: &Plan) {
        recovers_for(store, &self.user, plan, RECOVERY).await;
    }

    /// The same, where sentinels may elect another. A cluster has nobody to elect.
    pub async fn recovers_by_itself_or_another(&self, store: &Store, plan: &Plan) {
        let limit = match self.group {
            Group::Cluster(_) => RECOVERY,
            Group::Sentinels(_) => FAIL_OVER,
        };
        recovers_for(store, &self.user, plan, limit).await;
    }
}
