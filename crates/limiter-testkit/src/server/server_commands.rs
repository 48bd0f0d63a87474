use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::{RedisServer, Reply, ServerError};

/// Port 1 of loopback: nothing listens there, so a replica of it is merely read-only.
const NOWHERE: (&str, &str) = ("127.0.0.1", "1");

/// Commands that tests need often. Everything else goes through [`RedisServer::command`].
impl RedisServer {
    /// `CONFIG SET`, such as `("maxmemory", "1mb")`.
    ///
    /// # Errors
    /// As [`RedisServer::command`].
    pub fn config_set(&self, name: &str, value: &str) -> Result<(), ServerError> {
        self.command(&["CONFIG", "SET", name, value]).map(drop)
    }

    /// `SCRIPT FLUSH`: the next EVALSHA meets NOSCRIPT.
    ///
    /// # Errors
    /// As [`RedisServer::command`].
    pub fn script_flush(&self) -> Result<(), ServerError> {
        self.command(&["SCRIPT", "FLUSH"]).map(drop)
    }

    /// `FLUSHALL`: all data is gone, scripts stay.
    ///
    /// # Errors
    /// As [`RedisServer::command`].
    pub fn flush_all(&self) -> Result<(), ServerError> {
        self.command(&["FLUSHALL"]).map(drop)
    }

    /// Makes the server a replica of another one of this kit.
    ///
    /// # Errors
    /// As [`RedisServer::command`].
    pub fn replica_of(&self, primary: SocketAddr) -> Result<(), ServerError> {
        self.command(&[
            "REPLICAOF",
            &primary.ip().to_string(),
            &primary.port().to_string(),
        ])
        .map(drop)
    }

    /// Makes the server refuse writes with READONLY, its data kept: a replica whose primary is not there.
    /// [`promote`](Self::promote) undoes it.
    ///
    /// # Errors
    /// As [`RedisServer::command`].
    pub fn demote(&self) -> Result<(), ServerError> {
        self.command(&["REPLICAOF", NOWHERE.0, NOWHERE.1]).map(drop)
    }

    /// Makes a replica a primary.
    ///
    /// # Errors
    /// As [`RedisServer::command`].
    pub fn promote(&self) -> Result<(), ServerError> {
        self.command(&["REPLICAOF", "NO", "ONE"]).map(drop)
    }

    /// `INFO section`, by field name.
    ///
    /// # Errors
    /// As [`RedisServer::command`].
    pub fn info(&self, section: &str) -> Result<BTreeMap<String, String>, ServerError> {
        let text = self.command(&["INFO", section])?.text().unwrap_or_default();
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Ok(fields
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect())
    }

    /// How many calls of `command` have run since the server started or `CONFIG RESETSTAT`, failed ones included; a
    /// script's own calls count too. Subcommands are written `script|load`.
    ///
    /// # Errors
    /// As [`RedisServer::command`].
    pub fn calls_of(&self, command: &str) -> Result<u64, ServerError> {
        let stats = self.info("commandstats")?;
        let field = stats.get(&format!("cmdstat_{}", command.to_ascii_lowercase()));
        let calls =
            field.and_then(|stat| stat.split(',').find_map(|part| part.strip_prefix("calls=")));
        Ok(calls.and_then(|calls| calls.parse().ok()).unwrap_or(0))
    }

    /// Every key of the server, by a full SCAN.
    ///
    /// # Errors
    /// As [`RedisServer::command`].
    pub fn keys(&self) -> Result<Vec<Vec<u8>>, ServerError> {
        let (mut cursor, mut keys) = ("0".to_owned(), Vec::new());
        loop {
            let reply = self.command(&["SCAN", &cursor, "COUNT", "1000"])?;
            let [next, page] = reply.items() else {
                return Err(ServerError::Protocol {
                    command: "SCAN".to_owned(),
                    reply: reply.to_string(),
                });
            };
            keys.extend(page.items().iter().filter_map(|key| match key {
                Reply::Bulk(key) => Some(key.clone()),
                _ => None,
            }));
            cursor = next.text().unwrap_or_default();
            if cursor == "0" {
                keys.sort_unstable();
                keys.dedup();
                return Ok(keys);
            }
        }
    }

    /// The keys that would stay for ever, those without a time to live, of all databases.
    ///
    /// # Errors
    /// As [`RedisServer::command`].
    pub fn keys_without_ttl(&self) -> Result<Vec<Vec<u8>>, ServerError> {
        let mut immortal = Vec::new();
        for database in self.info("keyspace")?.keys() {
            let Some(database) = database.strip_prefix("db") else {
                continue;
            };
            // A node of a cluster has but one, and does not let anyone choose.
            let is_other = database != "0";
            if is_other {
                self.command(&["SELECT", database])?;
            }
            for key in self.keys()? {
                if self.command(&[b"PTTL".as_slice(), &key])?.int() == Some(-1) {
                    immortal.push(key);
                }
            }
            if is_other {
                self.command(&["SELECT", "0"])?;
            }
        }
        Ok(immortal)
    }
}
