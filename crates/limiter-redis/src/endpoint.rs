//! [`Endpoint`]: which servers, and in which arrangement.

#[cfg(feature = "tls")]
use limiter_lua::Trust;
use limiter_lua::{Address, Arrangement as Form, InvalidAddress, Node, Servers};
use redis::{ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisError};

use crate::connector::{Access, Connector};

/// Which servers hold the state, and in which arrangement.
///
/// | text | arrangement |
/// |---|---|
/// | `redis://[user:password@]host[:port][/db]` | one server |
/// | `redis+cluster://[user:password@]host:port[,host:port...]` | a cluster, found through any of the nodes |
/// | `redis+sentinel://[user:password@]host:port[,host:port...]/master[/db]` | the primary that sentinels name |
/// | `rediss://...`, `rediss+cluster://...`, `rediss+sentinel://...` | the same over TLS (feature `tls`) |
///
/// Nothing is connected yet: a service starts while its store is down.
///
/// # Examples
/// ```
/// use limiter_redis::Endpoint;
///
/// let endpoint: Endpoint = "redis+cluster://10.0.0.1:7000,10.0.0.2:7000".parse()?;
/// assert_eq!(format!("{endpoint:?}"), "Cluster { nodes: 2 }");
/// assert!("http://example.com".parse::<Endpoint>().is_err());
/// # Ok::<(), limiter_redis::InvalidEndpoint>(())
/// ```
#[derive(Clone)]
pub struct Endpoint {
    arrangement: Arrangement,
    #[cfg(feature = "tls")]
    trust: Trust,
}

#[derive(Clone)]
enum Arrangement {
    Standalone(ConnectionInfo),
    Cluster(Vec<ConnectionInfo>),
    Sentinel {
        sentinels: Vec<ConnectionInfo>,
        master: String,
        server: ConnectionInfo,
    },
}

impl Endpoint {
    fn new(arrangement: Arrangement) -> Self {
        Self {
            arrangement,
            #[cfg(feature = "tls")]
            trust: Trust::default(),
        }
    }

    /// Trusts the authorities in `pem` and not those of the system: for servers with certificates of one's own, sentinels
    /// included.
    ///
    /// # Errors
    /// [`InvalidEndpoint`] if there is no certificate in `pem`, or a damaged one.
    #[cfg(feature = "tls")]
    pub fn with_root_certificates(mut self, pem: &[u8]) -> Result<Self, InvalidEndpoint> {
        self.trust = Trust::in_authorities(pem).ok_or(InvalidEndpoint::Certificates)?;
        Ok(self)
    }

    /// Takes one server, by its URL.
    ///
    /// # Errors
    /// [`InvalidEndpoint`] if the URL is none of Redis.
    pub fn standalone(url: &str) -> Result<Self, InvalidEndpoint> {
        Ok(Self::new(Arrangement::Standalone(info(url)?)))
    }

    /// Takes a cluster, by the URLs of some of its nodes.
    ///
    /// # Errors
    /// [`InvalidEndpoint`] if there is no URL, or one is none of Redis.
    pub fn cluster<U: AsRef<str>>(
        urls: impl IntoIterator<Item = U>,
    ) -> Result<Self, InvalidEndpoint> {
        Ok(Self::new(Arrangement::Cluster(infos(urls)?)))
    }

    /// Takes the primary called `master`, by the URLs of some of its sentinels. `server` is a URL whose user, password,
    /// database and scheme are used towards the primary; its host is not.
    ///
    /// # Errors
    /// [`InvalidEndpoint`] if there is no URL, or one is none of Redis.
    pub fn sentinel<U: AsRef<str>>(
        urls: impl IntoIterator<Item = U>,
        master: impl Into<String>,
        server: &str,
    ) -> Result<Self, InvalidEndpoint> {
        Ok(Self::new(Arrangement::Sentinel {
            sentinels: infos(urls)?,
            master: master.into(),
            server: info(server)?,
        }))
    }
}

impl Endpoint {
    /// Returns what connects, and to which servers.
    pub(crate) fn into_parts(self) -> Result<(Connector, Servers), InvalidEndpoint> {
        let (mut sentinel_access, mut socket) = (Vec::new(), None);
        let (server, servers) = match self.arrangement {
            Arrangement::Standalone(server) => {
                let servers = if let ConnectionAddr::Unix(path) = server.addr() {
                    socket = Some(path.clone());
                    Servers::Local
                } else {
                    Servers::One(node(&server)?)
                };
                (server, servers)
            }
            Arrangement::Cluster(infos) => {
                let nodes = infos.iter().map(node).collect::<Result<_, _>>()?;
                let first = infos.into_iter().next().ok_or(InvalidAddress::NoNodes)?;
                (first, Servers::Cluster(nodes))
            }
            Arrangement::Sentinel {
                sentinels,
                master,
                server,
            } => {
                for sentinel in &sentinels {
                    sentinel_access.push((node(sentinel)?, access(sentinel)?));
                }
                let sentinels = sentinel_access.iter().map(|(node, _)| node.clone());
                let sentinels = sentinels.collect();
                (server, Servers::Sentinel { sentinels, master })
            }
        };
        let connector = Connector {
            servers: access(&server)?,
            sentinels: sentinel_access,
            socket,
            #[cfg(feature = "tls")]
            trust: self.trust,
        };
        Ok((connector, servers))
    }
}

/// Returns where a server listens that is in a cluster or behind sentinels, or stands alone.
fn node(info: &ConnectionInfo) -> Result<Node, InvalidEndpoint> {
    match info.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            Ok(Node::new(host, *port))
        }
        _ => Err(InvalidAddress::Form.into()),
    }
}

fn access(info: &ConnectionInfo) -> Result<Access, InvalidEndpoint> {
    let refused = match info.addr() {
        ConnectionAddr::TcpTls { .. } if cfg!(not(feature = "tls")) => {
            Some("rediss:// needs the feature tls of limiter-redis")
        }
        ConnectionAddr::TcpTls { insecure: true, .. } => Some(
            "certificates are always verified: leave #insecure out, and give the authorities to trust",
        ),
        _ => None,
    };
    if let Some(refused) = refused {
        let refused = RedisError::from((ErrorKind::InvalidClientConfig, refused));
        return Err(InvalidEndpoint::Url(refused));
    }
    Ok(Access {
        settings: info.redis_settings().clone(),
        #[cfg(feature = "tls")]
        is_tls: matches!(info.addr(), ConnectionAddr::TcpTls { .. }),
    })
}

fn infos<U: AsRef<str>>(
    urls: impl IntoIterator<Item = U>,
) -> Result<Vec<ConnectionInfo>, InvalidEndpoint> {
    let infos: Vec<_> = urls
        .into_iter()
        .map(|url| info(url.as_ref()))
        .collect::<Result<_, _>>()?;
    if infos.is_empty() {
        return Err(InvalidAddress::NoNodes.into());
    }
    Ok(infos)
}

fn info(url: &str) -> Result<ConnectionInfo, InvalidEndpoint> {
    // redis-rs takes a sign for a part of the number.
    if let Err(problem @ InvalidAddress::Database) = Address::read(url) {
        return Err(problem.into());
    }
    url.into_connection_info().map_err(InvalidEndpoint::Url)
}

impl std::str::FromStr for Endpoint {
    type Err = InvalidEndpoint;

    fn from_str(text: &str) -> Result<Self, InvalidEndpoint> {
        let Address {
            transport,
            user,
            hosts,
            arrangement,
        } = Address::read(text)?;
        let url = |user: &str, host: &str, db: &str| format!("{transport}://{user}{host}/{db}");
        match arrangement {
            Form::Standalone => Self::standalone(text),
            Form::Cluster => Self::cluster(hosts.into_iter().map(|host| url(user, host, ""))),
            Form::Sentinel { master, db } => {
                let sentinels = hosts.into_iter().map(|host| url("", host, ""));
                Self::sentinel(sentinels, master, &url(user, "primary", db))
            }
        }
    }
}

impl TryFrom<&str> for Endpoint {
    type Error = InvalidEndpoint;

    fn try_from(text: &str) -> Result<Self, InvalidEndpoint> {
        text.parse()
    }
}

/// Shows the arrangement alone: addresses come with passwords.
#[allow(
    clippy::missing_fields_in_debug,
    reason = "whom TLS trusts is long, and no part of the arrangement"
)]
impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.arrangement {
            Arrangement::Standalone(_) => f.write_str("Standalone"),
            Arrangement::Cluster(nodes) => f
                .debug_struct("Cluster")
                .field("nodes", &nodes.len())
                .finish(),
            Arrangement::Sentinel {
                sentinels, master, ..
            } => f
                .debug_struct("Sentinel")
                .field("sentinels", &sentinels.len())
                .field("master", master)
                .finish(),
        }
    }
}

/// Says why a text or a list of URLs is no [`Endpoint`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEndpoint {
    /// The text is of no form that is known.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// The client refused a URL.
    #[error("address is not a URL of Redis, or needs the feature tls")]
    Url(#[source] RedisError),
    /// The authorities to trust are not certificates in PEM.
    #[cfg(feature = "tls")]
    #[error("no certificate in PEM, or a damaged one: give those of the authorities to trust")]
    Certificates,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        for (text, shown) in [
            ("redis://localhost", "Standalone"),
            ("redis://u:p@localhost:7000/3", "Standalone"),
            ("redis+cluster://u:p@a:1,b:2", "Cluster { nodes: 2 }"),
            (
                "redis+sentinel://u:p@a:1,b:2,c:3/main/2",
                "Sentinel { sentinels: 3, master: \"main\" }",
            ),
        ] {
            assert_eq!(format!("{:?}", text.parse::<Endpoint>().unwrap()), shown);
        }
    }

    #[test]
    fn a_database_is_digits_alone() {
        for url in ["redis://a:1/+2", "redis://a:1/-2"] {
            let refused = [
                Endpoint::standalone(url),
                Endpoint::sentinel(["redis://a:1"], "main", url),
                Endpoint::cluster([url]),
            ];
            for refused in refused {
                let why = refused.expect_err("a sign");
                assert!(
                    matches!(why, InvalidEndpoint::Address(InvalidAddress::Database)),
                    "{why:?}"
                );
            }
        }
    }
}
