use std::collections::BTreeMap;
use std::time::Duration;

use super::admin::{ADMIN_PASSWORD, ADMIN_USER};
use super::server_builder::Mode;
use super::wait::{Seen, wait_for};
use super::{Flavour, RedisServer, Reply, ServerBuilder, ServerError};

const MASTER_NAME: &str = "limiter";
const SENTINELS: usize = 3;
const READY_LIMIT: Duration = Duration::from_secs(30);

/// A primary, a replica, and three sentinels that watch over them.
///
/// The sentinels take the primary for dead after 500 ms and need two votes; a fail-over takes 1 to 3 s.
#[derive(Debug)]
pub struct RedisSentinel {
    data: [RedisServer; 2],
    /// By which ports the sentinels know them.
    told_ports: [u16; 2],
    sentinels: Vec<RedisServer>,
}

impl RedisSentinel {
    /// Starts all five servers with defaults.
    ///
    /// # Errors
    /// As [`RedisSentinel::start_with`].
    pub fn start(flavour: Flavour) -> Result<Self, ServerError> {
        Self::start_with(RedisServer::builder(flavour))
    }

    /// Starts a primary and a replica as `data` says, and three sentinels without a password; waits until the replica
    /// follows and the sentinels know it and each other.
    ///
    /// # Errors
    /// As [`ServerBuilder::start`]; [`ServerError::TimedOut`] if they do not come together.
    pub fn start_with(data: ServerBuilder) -> Result<Self, ServerError> {
        let primary = data.clone().start()?;
        let replica = data.clone().with_replica_of(primary.told_addr()).start()?;
        wait_until_following(&replica)?;
        let sentinel = sentinel_of(data.flavour(), primary.told_port()).with_tls_of(&data);
        let sentinels = (0..SENTINELS)
            .map(|_| sentinel.clone().start())
            .collect::<Result<Vec<_>, _>>()?;
        for sentinel in &sentinels {
            hurry(sentinel)?;
        }
        let group = Self {
            told_ports: [primary.told_port(), replica.told_port()],
            data: [primary, replica],
            sentinels,
        };
        group.wait_until_ok()?;
        Ok(group)
    }

    /// The name under which the sentinels know the primary.
    #[must_use]
    pub fn master_name(&self) -> &'static str {
        MASTER_NAME
    }

    /// The primary at the start and the replica at the start, whatever they are now.
    #[must_use]
    pub fn data_nodes(&self) -> &[RedisServer; 2] {
        &self.data
    }

    /// The three sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// The address of the primary by way of its sentinels, `redis+sentinel://`, as limiter's stores read it;
    /// `rediss+sentinel://` if all of them speak TLS.
    #[must_use]
    pub fn address(&self) -> String {
        let [primary, _] = &self.data;
        let sentinels = self.sentinels().iter();
        let hosts: Vec<_> = sentinels.map(|node| node.told_addr().to_string()).collect();
        let scheme = primary.told_scheme();
        format!("{scheme}+sentinel://{}/{MASTER_NAME}", hosts.join(","))
    }

    /// Makes the sentinels name other ports to clients, such as those of a proxy before each of the
    /// [data nodes](Self::data_nodes), and waits until all is well again. The sentinels themselves, and the replica, go by
    /// these ports from then on.
    ///
    /// # Errors
    /// As [`RedisServer::command`]; [`ServerError::TimedOut`] if they do not come together.
    pub fn announce_ports(&mut self, ports: [u16; 2]) -> Result<(), ServerError> {
        self.told_ports = ports;
        let [primary, replica] = &self.data;
        let [primary_port, replica_port] = ports.map(|port| port.to_string());
        primary.config_set("replica-announce-port", &primary_port)?;
        replica.config_set("replica-announce-port", &replica_port)?;
        replica.command(&["REPLICAOF", "127.0.0.1", &primary_port])?;
        wait_until_following(replica)?;
        for sentinel in &self.sentinels {
            sentinel.command(&["SENTINEL", "REMOVE", MASTER_NAME])?;
            let monitor = ["MONITOR", MASTER_NAME, "127.0.0.1", &primary_port, "2"];
            sentinel.command(&[&["SENTINEL"], &monitor[..]].concat())?;
            for (option, value) in OPTIONS {
                sentinel.command(&["SENTINEL", "SET", MASTER_NAME, option, value])?;
            }
        }
        self.wait_until_ok()
    }

    /// The URLs of the sentinels.
    #[must_use]
    pub fn sentinel_urls(&self) -> Vec<String> {
        self.sentinels.iter().map(RedisServer::url).collect()
    }

    /// The node that the first answering sentinel calls the primary.
    ///
    /// # Errors
    /// As [`RedisServer::command`].
    pub fn primary(&self) -> Result<&RedisServer, ServerError> {
        let reply = self.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER_NAME])?;
        let port = reply.items().get(1).and_then(Reply::int);
        let mut known = self.data.iter().zip(self.told_ports);
        let primary = known.find(|(_, told)| Some(i64::from(*told)) == port);
        let primary = primary.map(|(node, _)| node);
        primary.ok_or_else(|| ServerError::Protocol {
            command: "SENTINEL".to_owned(),
            reply: reply.to_string(),
        })
    }

    /// Asks for a fail-over although the primary is well. Returns before it is done.
    ///
    /// # Errors
    /// As [`RedisServer::command`].
    pub fn fail_over(&self) -> Result<(), ServerError> {
        self.ask(&["SENTINEL", "FAILOVER", MASTER_NAME]).map(drop)
    }

    /// Waits until every sentinel names a primary other than `old`, and that node takes writes; returns it.
    ///
    /// # Errors
    /// [`ServerError::TimedOut`] after 30 s.
    pub fn wait_for_other_primary_than(
        &self,
        old: &RedisServer,
    ) -> Result<&RedisServer, ServerError> {
        let mut known = self.data.iter().zip(self.told_ports);
        let old = known.find(|(node, _)| node.port() == old.port());
        let old = old.map(|(_, told)| told.to_string());
        wait_for("another primary", READY_LIMIT, || {
            for sentinel in self.answering() {
                let reply =
                    sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER_NAME])?;
                if reply.items().get(1).and_then(Reply::text) == old {
                    return Ok(Seen::NotYet(reply.to_string()));
                }
            }
            let primary = self.primary()?;
            let role = primary
                .info("replication")?
                .remove("role")
                .unwrap_or_default();
            Ok(if role == "master" {
                Seen::Ready(primary)
            } else {
                Seen::NotYet(role)
            })
        })
    }

    /// Waits until every running sentinel sees the primary, its replica and the two other sentinels in good health:
    /// only then can a fail-over succeed.
    ///
    /// # Errors
    /// [`ServerError::TimedOut`] after 30 s.
    pub fn wait_until_ok(&self) -> Result<(), ServerError> {
        wait_for("the sentinels to know everyone", READY_LIMIT, || {
            for sentinel in self.answering() {
                let master = sentinel.command(&["SENTINEL", "MASTER", MASTER_NAME])?;
                let replicas = sentinel.command(&["SENTINEL", "REPLICAS", MASTER_NAME])?;
                let replica = replicas.items().first().cloned().unwrap_or(Reply::Nil);
                let healthy = field(&master, "flags").as_deref() == Some("master")
                    && field(&master, "num-other-sentinels").as_deref() == Some("2")
                    && field(&replica, "flags").as_deref() == Some("slave")
                    && field(&replica, "master-link-status").as_deref() == Some("ok");
                if !healthy {
                    return Ok(Seen::NotYet(format!("{master}, {replicas}")));
                }
            }
            Ok(Seen::Ready(()))
        })
    }

    /// Waits until the replica has acknowledged all that the primary wrote so far. A replica that has just attached has
    /// acknowledged nothing: a fail-over then loses everything.
    ///
    /// # Errors
    /// [`ServerError::TimedOut`] after 30 s.
    pub fn wait_until_replicated(&self) -> Result<(), ServerError> {
        let primary = self.primary()?;
        let written = offset(&primary.info("replication")?);
        wait_for("the replica to acknowledge", READY_LIMIT, || {
            let seen = primary.info("replication")?;
            let replica = seen.get("slave0").cloned().unwrap_or_default();
            let acknowledged = replica
                .split(',')
                .find_map(|part| part.strip_prefix("offset="));
            let acknowledged = acknowledged.and_then(|offset| offset.parse::<u64>().ok());
            Ok(match acknowledged {
                Some(acknowledged) if acknowledged >= written => Seen::Ready(()),
                _ => Seen::NotYet(replica),
            })
        })
    }

    fn answering(&self) -> impl Iterator<Item = &RedisServer> {
        self.sentinels
            .iter()
            .filter(|sentinel| sentinel.is_running() && !sentinel.is_paused())
    }

    fn ask(&self, args: &[&str]) -> Result<Reply, ServerError> {
        match self.answering().next() {
            Some(sentinel) => sentinel.command(args),
            None => Err(ServerError::io("ask sentinels of which none runs")(
                std::io::ErrorKind::NotFound.into(),
            )),
        }
    }
}

/// How far a primary has written, by its own account.
fn offset(replication: &BTreeMap<String, String>) -> u64 {
    let offset = replication.get("master_repl_offset");
    offset
        .and_then(|offset| offset.parse().ok())
        .unwrap_or_default()
}

fn sentinel_of(flavour: Flavour, primary: u16) -> ServerBuilder {
    let sentinel = RedisServer::builder(flavour)
        .with_mode(Mode::Sentinel)
        .with_config(format!(
            "sentinel monitor {MASTER_NAME} 127.0.0.1 {primary} 2"
        ));
    OPTIONS.iter().fold(sentinel, |sentinel, (option, value)| {
        sentinel.with_config(format!("sentinel {option} {MASTER_NAME} {value}"))
    })
}

/// What the sentinels are told of the primary besides where it is.
const OPTIONS: [(&str, &str); 4] = [
    ("auth-user", ADMIN_USER),
    ("auth-pass", ADMIN_PASSWORD),
    ("down-after-milliseconds", "500"),
    ("failover-timeout", "3000"),
];

fn wait_until_following(replica: &RedisServer) -> Result<(), ServerError> {
    wait_for("the replica to follow", READY_LIMIT, || {
        let mut info = replica.info("replication")?;
        let status = info.remove("master_link_status").unwrap_or_default();
        Ok(if status == "up" {
            Seen::Ready(())
        } else {
            Seen::NotYet(status)
        })
    })
}

/// Makes a sentinel look several times a second, not every one to ten seconds: it learns sooner what came back.
///
/// It connects anew at most once in a ping period. With the usual second it would, after a fail-over, take the new
/// primary for dead 500 ms before it so much as calls it, and fail over again. But it promotes only a replica whose
/// news is younger than five ping periods, and asks once a second: hence 300. Servers before 7.0 cannot be hurried.
fn hurry(sentinel: &RedisServer) -> Result<(), ServerError> {
    let periods = [
        ["PING-PERIOD", "300"],
        ["INFO-PERIOD", "500"],
        ["PUBLISH-PERIOD", "300"],
    ];
    let command = ["SENTINEL", "DEBUG"]
        .into_iter()
        .chain(periods.into_iter().flatten());
    match sentinel.command(&command.collect::<Vec<_>>()) {
        Ok(_) | Err(ServerError::Refused { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A field of a reply that is a flat list of names and values.
fn field(reply: &Reply, name: &str) -> Option<String> {
    let mut pairs = reply.items().chunks(2);
    pairs.find_map(|pair| match pair {
        [field, value] if field.text().as_deref() == Some(name) => value.text(),
        _ => None,
    })
}
