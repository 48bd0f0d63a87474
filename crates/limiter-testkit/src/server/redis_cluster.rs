use std::time::Duration;

use super::server_builder::Mode;
use super::slot_range::SlotRange;
use super::wait::{Seen, wait_for};
use super::{Flavour, RedisServer, Reply, ServerBuilder, ServerError, SlotMigration};

const MASTERS: usize = 3;
const SLOTS: usize = 16_384;
/// A node takes no part for its first two seconds; the rest is for slow machines.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// A cluster of three masters, each with as many replicas as asked for.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    id: String,
    server: RedisServer,
}

impl RedisCluster {
    /// Starts three masters without replicas.
    ///
    /// # Errors
    /// As [`RedisCluster::start_with`].
    pub fn start(flavour: Flavour) -> Result<Self, ServerError> {
        Self::start_with(RedisServer::builder(flavour), 0)
    }

    /// Starts three masters with `replicas` replicas each, every node as `node` says, and waits until all slots are
    /// served. The node time-out is 1 s, so a killed master with a replica is replaced within about two.
    ///
    /// # Errors
    /// As [`ServerBuilder::start`]; [`ServerError::TimedOut`] if the nodes do not come together.
    pub fn start_with(node: ServerBuilder, replicas: usize) -> Result<Self, ServerError> {
        let node = node.with_mode(Mode::ClusterNode);
        let servers = (0..MASTERS * (1 + replicas))
            .map(|_| node.clone().start())
            .collect::<Result<Vec<_>, _>>()?;
        let mut nodes = Vec::with_capacity(servers.len());
        for server in servers {
            let id = server
                .command(&["CLUSTER", "MYID"])?
                .text()
                .unwrap_or_default();
            nodes.push(Node { id, server });
        }
        let cluster = Self { nodes };
        cluster.share_out_slots()?;
        cluster.introduce_nodes()?;
        cluster.attach_replicas()?;
        cluster.wait_until_ok()?;
        Ok(cluster)
    }

    /// Every node: first the three that began as masters, then the replicas (the first replica of each, then the
    /// second of each).
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &RedisServer> {
        self.nodes.iter().map(|node| &node.server)
    }

    /// The URL of every node, in the order of [`nodes`](Self::nodes).
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.nodes().map(RedisServer::url).collect()
    }

    /// The address of the cluster as a whole, `redis+cluster://` and its nodes, as limiter's stores read it;
    /// `rediss+cluster://` if they speak TLS.
    #[must_use]
    pub fn address(&self) -> String {
        let scheme = self
            .nodes()
            .next()
            .map_or("redis", RedisServer::told_scheme);
        let hosts = self.nodes().map(|node| node.told_addr().to_string());
        format!("{scheme}+cluster://{}", hosts.collect::<Vec<_>>().join(","))
    }

    /// The slot of a key, by its hash tag if it has one.
    ///
    /// # Errors
    /// As [`RedisServer::command`].
    pub fn slot_of(&self, key: impl AsRef<[u8]>) -> Result<u16, ServerError> {
        let reply = self.ask(&[b"CLUSTER".as_slice(), b"KEYSLOT", key.as_ref()])?;
        reply
            .int()
            .and_then(|slot| u16::try_from(slot).ok())
            .ok_or_else(|| not_understood("CLUSTER KEYSLOT", &reply))
    }

    /// The node that serves a slot now.
    ///
    /// # Errors
    /// [`ServerError::Protocol`] if no node does; else as [`RedisServer::command`].
    pub fn primary_of(&self, slot: u16) -> Result<&RedisServer, ServerError> {
        let reply = self.ask(&["CLUSTER", "SLOTS"])?;
        let range = SlotRange::list(&reply)
            .into_iter()
            .find(|range| range.contains(slot));
        let primary = range.and_then(|range| self.node_with_id(&range.nodes().first()?.id));
        primary
            .map(|node| &node.server)
            .ok_or_else(|| not_understood("CLUSTER SLOTS", &reply))
    }

    /// How many slots have a node that serves them; 16384 if all is well.
    ///
    /// # Errors
    /// As [`RedisServer::command`].
    pub fn slots_covered(&self) -> Result<usize, ServerError> {
        Ok(SlotRange::list(&self.ask(&["CLUSTER", "SLOTS"])?)
            .iter()
            .map(SlotRange::len)
            .sum())
    }

    /// Waits until every running node serves, sees all slots served, and replicas follow their masters.
    ///
    /// # Errors
    /// [`ServerError::TimedOut`] after 30 s.
    pub fn wait_until_ok(&self) -> Result<(), ServerError> {
        wait_for("the cluster to serve all slots", READY_LIMIT, || {
            for node in self.answering() {
                let info = node
                    .server
                    .command(&["CLUSTER", "INFO"])?
                    .text()
                    .unwrap_or_default();
                let replication = node.server.info("replication")?;
                let cut_off = replication
                    .get("master_link_status")
                    .is_some_and(|status| status != "up");
                if !info.contains("cluster_state:ok")
                    || !info.contains("cluster_slots_ok:16384")
                    || cut_off
                {
                    return Ok(Seen::NotYet(format!(
                        "node on port {}: {info}",
                        node.server.port()
                    )));
                }
            }
            Ok(Seen::Ready(()))
        })
    }

    /// Makes the nodes tell clients other ports, such as those of a proxy before each of them, and waits until all
    /// nodes know. `ports` goes by the order of [`nodes`](Self::nodes). [`RedisServer::restart`] undoes it.
    ///
    /// # Errors
    /// As [`RedisServer::command`]; [`ServerError::TimedOut`] if the news does not spread.
    pub fn announce_ports(&self, ports: &[u16]) -> Result<(), ServerError> {
        for (node, port) in self.nodes.iter().zip(ports) {
            node.server
                .config_set("cluster-announce-port", &port.to_string())?;
        }
        let announced = self
            .nodes
            .iter()
            .zip(ports)
            .map(|(node, port)| (node.id.as_str(), i64::from(*port)));
        let announced = announced.collect::<Vec<_>>();
        wait_for("announced ports to spread", READY_LIMIT, || {
            for node in self.answering() {
                let reply = node.server.command(&["CLUSTER", "SLOTS"])?;
                let ranges = SlotRange::list(&reply);
                let stale = ranges.iter().flat_map(SlotRange::nodes).any(|told| {
                    announced
                        .iter()
                        .any(|(id, port)| *id == told.id && *port != told.port)
                });
                if stale {
                    return Ok(Seen::NotYet(reply.to_string()));
                }
            }
            Ok(Seen::Ready(()))
        })
    }

    /// Begins to move a slot to another node, in the steps that an operator's tool takes. Until
    /// [`SlotMigration::finish`], clients meet ASK for keys that have gone.
    ///
    /// # Errors
    /// As [`RedisServer::command`].
    pub fn begin_migration<'a>(
        &'a self,
        slot: u16,
        to: &'a RedisServer,
    ) -> Result<SlotMigration<'a>, ServerError> {
        SlotMigration::begin(self, slot, self.primary_of(slot)?, to)
    }

    /// Moves a slot with all its keys to another node.
    ///
    /// # Errors
    /// As [`RedisServer::command`].
    pub fn migrate_slot(&self, slot: u16, to: &RedisServer) -> Result<(), ServerError> {
        let migration = self.begin_migration(slot, to)?;
        while migration.move_keys(100)? > 0 {}
        migration.finish()
    }

    fn share_out_slots(&self) -> Result<(), ServerError> {
        for (index, node) in self.nodes.iter().take(MASTERS).enumerate() {
            let (first, end) = (index * SLOTS / MASTERS, (index + 1) * SLOTS / MASTERS);
            let words = ["CLUSTER", "ADDSLOTS"].map(str::to_owned).into_iter();
            node.server.command(
                &words
                    .chain((first..end).map(|slot| slot.to_string()))
                    .collect::<Vec<_>>(),
            )?;
        }
        // Distinct epochs from the start: nodes of equal epoch would spend seconds on settling who is who.
        for (index, node) in self.nodes.iter().enumerate() {
            node.server
                .command(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?;
        }
        Ok(())
    }

    fn introduce_nodes(&self) -> Result<(), ServerError> {
        let Some((first, others)) = self.nodes.split_first() else {
            return Ok(());
        };
        for other in others {
            first.server.command(&[
                "CLUSTER",
                "MEET",
                "127.0.0.1",
                &other.server.told_port().to_string(),
            ])?;
        }
        wait_for("the nodes to know each other", READY_LIMIT, || {
            for node in &self.nodes {
                let known = node
                    .server
                    .command(&["CLUSTER", "NODES"])?
                    .text()
                    .unwrap_or_default();
                if !self.nodes.iter().all(|other| known.contains(&other.id))
                    || known.contains("handshake")
                {
                    return Ok(Seen::NotYet(known));
                }
            }
            Ok(Seen::Ready(()))
        })
    }

    fn attach_replicas(&self) -> Result<(), ServerError> {
        let masters = self.nodes.iter().take(MASTERS).cycle();
        for (replica, master) in self.nodes.iter().skip(MASTERS).zip(masters) {
            replica
                .server
                .command(&["CLUSTER", "REPLICATE", &master.id])?;
        }
        Ok(())
    }

    pub(super) fn id_of(&self, server: &RedisServer) -> Option<&str> {
        self.nodes
            .iter()
            .find(|node| node.server.port() == server.port())
            .map(|node| node.id.as_str())
    }

    fn node_with_id(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    fn answering(&self) -> impl Iterator<Item = &Node> {
        self.nodes
            .iter()
            .filter(|node| node.server.is_running() && !node.server.is_paused())
    }

    /// Asks the first node that can answer.
    fn ask<A: AsRef<[u8]>>(&self, args: &[A]) -> Result<Reply, ServerError> {
        match self.answering().next() {
            Some(node) => node.server.command(args),
            None => Err(ServerError::io("ask a cluster of which no node runs")(
                std::io::ErrorKind::NotFound.into(),
            )),
        }
    }
}

fn not_understood(command: &str, reply: &Reply) -> ServerError {
    ServerError::Protocol {
        command: command.to_owned(),
        reply: reply.to_string(),
    }
}
