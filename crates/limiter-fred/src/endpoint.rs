//! [`Endpoint`]: which servers, and in which arrangement.

use std::time::Duration;

use fred::error::Error;
use fred::types::config::{Config, Server, ServerConfig};
#[cfg(feature = "tls")]
use limiter_lua::Trust;
use limiter_lua::{Address, Arrangement, InvalidAddress, Node, Servers};

use crate::connector::Connector;

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
/// use limiter_fred::Endpoint;
///
/// let endpoint: Endpoint = "redis+cluster://10.0.0.1:7000,10.0.0.2:7000".parse()?;
/// assert_eq!(format!("{endpoint:?}"), "Cluster { nodes: 2 }");
/// assert!("http://example.com".parse::<Endpoint>().is_err());
/// # Ok::<(), limiter_fred::InvalidEndpoint>(())
/// ```
#[derive(Clone)]
pub struct Endpoint {
    config: Config,
    /// Whom to trust, if servers are reached over TLS and the configuration does not say how.
    #[cfg(feature = "tls")]
    trust: Option<Trust>,
}

impl Endpoint {
    /// Trusts the authorities in `pem` and not those of the system: for servers with certificates of one's own, sentinels
    /// included.
    ///
    /// # Errors
    /// [`InvalidEndpoint`] if there is no certificate in `pem`, or a damaged one.
    #[cfg(feature = "tls")]
    pub fn with_root_certificates(mut self, pem: &[u8]) -> Result<Self, InvalidEndpoint> {
        self.config.tls = None;
        self.trust = Some(Trust::in_authorities(pem).ok_or(InvalidEndpoint::Certificates)?);
        Ok(self)
    }

    /// Returns what connects, and to which servers.
    pub(crate) fn into_parts(self, connect_timeout: Duration) -> (Connector, Servers) {
        let mut sentinels = self.config.clone();
        let servers = match &self.config.server {
            ServerConfig::Centralized { server } => Servers::One(node(server)),
            ServerConfig::Clustered { hosts, .. } => {
                Servers::Cluster(hosts.iter().map(node).collect())
            }
            ServerConfig::Sentinel {
                hosts,
                service_name,
                username,
                password,
            } => {
                // A sentinel has no databases, and users of its own.
                sentinels.database = None;
                (sentinels.username, sentinels.password) = (username.clone(), password.clone());
                Servers::Sentinel {
                    sentinels: hosts.iter().map(node).collect(),
                    master: service_name.clone(),
                }
            }
            #[allow(
                unreachable_patterns,
                reason = "fred has sockets of Unix behind a feature that its users may choose"
            )]
            _ => Servers::Local,
        };
        let connector = Connector {
            servers: self.config,
            sentinels,
            connect_timeout,
            #[cfg(feature = "tls")]
            trust: self.trust,
        };
        (connector, servers)
    }
}

fn node(server: &Server) -> Node {
    Node::new(&*server.host, server.port)
}

impl From<Config> for Endpoint {
    fn from(config: Config) -> Self {
        Self {
            config,
            #[cfg(feature = "tls")]
            trust: None,
        }
    }
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
        let is_tls = transport == "rediss";
        if is_tls && cfg!(not(feature = "tls")) {
            return Err(InvalidEndpoint::NoTls);
        }
        // fred takes user and password with the first node, and the others as parameters. TLS is the store's own affair: fred would
        // read here and now whom the system trusts.
        let mut hosts = hosts.into_iter();
        let first = hosts.next().unwrap_or_default();
        let nodes = hosts.fold(String::new(), |list, node| list + "&node=" + node);
        let config = match arrangement {
            Arrangement::Standalone => {
                Config::from_url_centralized(&text.replacen(transport, "redis", 1))
            }
            Arrangement::Cluster => Config::from_url_clustered(&format!(
                "redis-cluster://{user}{first}?{}",
                nodes.trim_start_matches('&')
            )),
            Arrangement::Sentinel { master, db } => Config::from_url_sentinel(&format!(
                "redis-sentinel://{user}{first}/{db}?sentinelServiceName={master}{nodes}"
            )),
        };
        let endpoint = Self::from(config.map_err(InvalidEndpoint::Url)?);
        #[cfg(feature = "tls")]
        let endpoint = Self {
            trust: is_tls.then(Trust::default),
            ..endpoint
        };
        Ok(endpoint)
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
        match &self.config.server {
            ServerConfig::Clustered { hosts, .. } => f
                .debug_struct("Cluster")
                .field("nodes", &hosts.len())
                .finish(),
            ServerConfig::Sentinel {
                hosts,
                service_name,
                ..
            } => f
                .debug_struct("Sentinel")
                .field("sentinels", &hosts.len())
                .field("master", service_name)
                .finish(),
            ServerConfig::Centralized { .. } => f.write_str("Standalone"),
        }
    }
}

/// Says why a text is no [`Endpoint`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEndpoint {
    /// The text is of no form that is known.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// The authorities to trust are not certificates in PEM.
    #[cfg(feature = "tls")]
    #[error("no certificate in PEM, or a damaged one: give those of the authorities to trust")]
    Certificates,
    /// The address wants TLS.
    #[error("rediss:// needs the feature tls of limiter-fred")]
    NoTls,
    /// The client refused the address.
    #[error("address is not a URL of Redis")]
    Url(#[source] Error),
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
}
