use super::admin::{ADMIN_PASSWORD, ADMIN_USER};
use super::{RedisCluster, RedisServer, Reply, ServerError};

const MIGRATE_LIMIT_MS: &str = "5000";

/// A slot on its way from one node to another. Made by [`RedisCluster::begin_migration`].
///
/// Dropped without [`finish`](Self::finish) or [`cancel`](Self::cancel), the slot stays half moved.
#[derive(Debug)]
#[must_use = "a slot stays half moved until `finish` or `cancel`"]
pub struct SlotMigration<'a> {
    cluster: &'a RedisCluster,
    slot: String,
    from: &'a RedisServer,
    to: &'a RedisServer,
}

impl<'a> SlotMigration<'a> {
    pub(super) fn begin(
        cluster: &'a RedisCluster,
        slot: u16,
        from: &'a RedisServer,
        to: &'a RedisServer,
    ) -> Result<Self, ServerError> {
        let migration = Self {
            cluster,
            slot: slot.to_string(),
            from,
            to,
        };
        migration.set_slot(to, &["IMPORTING", migration.id_of(from)?])?;
        migration.set_slot(from, &["MIGRATING", migration.id_of(to)?])?;
        Ok(migration)
    }

    /// The node that the slot leaves.
    #[must_use]
    pub fn from(&self) -> &'a RedisServer {
        self.from
    }

    /// The node that the slot goes to.
    #[must_use]
    pub fn to(&self) -> &'a RedisServer {
        self.to
    }

    /// Moves up to `max` keys, and says how many there were.
    ///
    /// # Errors
    /// As [`RedisServer::command`].
    pub fn move_keys(&self, max: u32) -> Result<usize, ServerError> {
        let keys =
            self.from
                .command(&["CLUSTER", "GETKEYSINSLOT", &self.slot, &max.to_string()])?;
        if keys.items().is_empty() {
            return Ok(0);
        }
        let port = self.to.told_port().to_string();
        let head = ["MIGRATE", "127.0.0.1", &port, "", "0", MIGRATE_LIMIT_MS];
        let tail = ["AUTH2", ADMIN_USER, ADMIN_PASSWORD, "KEYS"];
        let words = head
            .into_iter()
            .chain(tail)
            .map(|word| word.as_bytes().to_vec());
        let keys = keys.items().iter().filter_map(|key| match key {
            Reply::Bulk(key) => Some(key.clone()),
            _ => None,
        });
        let keys = keys.collect::<Vec<_>>();
        let moved = keys.len();
        self.from.command(&words.chain(keys).collect::<Vec<_>>())?;
        Ok(moved)
    }

    /// Hands the slot over. Keys that were not moved are moved first.
    ///
    /// # Errors
    /// As [`RedisServer::command`].
    pub fn finish(self) -> Result<(), ServerError> {
        while self.move_keys(100)? > 0 {}
        let id = self.id_of(self.to)?;
        // The new owner first: it must not learn from the old one that nobody owns the slot.
        self.set_slot(self.to, &["NODE", id])?;
        self.set_slot(self.from, &["NODE", id])?;
        for node in self
            .cluster
            .nodes()
            .filter(|node| node.is_running() && !node.is_paused())
        {
            let is_primary = node
                .info("replication")?
                .get("role")
                .is_some_and(|role| role == "master");
            if is_primary {
                self.set_slot(node, &["NODE", id])?;
            }
        }
        Ok(())
    }

    /// Ends the migration where it began. Keys that have moved stay behind on the other node, out of reach.
    ///
    /// # Errors
    /// As [`RedisServer::command`].
    pub fn cancel(self) -> Result<(), ServerError> {
        self.set_slot(self.from, &["STABLE"])?;
        self.set_slot(self.to, &["STABLE"])
    }

    fn set_slot(&self, node: &RedisServer, what: &[&str]) -> Result<(), ServerError> {
        let words = ["CLUSTER", "SETSLOT", &self.slot]
            .into_iter()
            .chain(what.iter().copied());
        node.command(&words.collect::<Vec<_>>()).map(drop)
    }

    fn id_of(&self, server: &RedisServer) -> Result<&'a str, ServerError> {
        self.cluster
            .id_of(server)
            .ok_or_else(|| ServerError::Refused {
                command: "CLUSTER SETSLOT".to_owned(),
                message: format!(
                    "the server on port {} is not of this cluster",
                    server.port()
                ),
            })
    }
}
