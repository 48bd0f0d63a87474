//! [`Endpoint`]: which servers, and in which arrangement.

use fred::error::Error;
use fred::types::config::{Config, ServerConfig};

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
pub struct Endpoint(pub(crate) Config);

impl From<Config> for Endpoint {
    fn from(config: Config) -> Self {
        Self(config)
    }
}

impl std::str::FromStr for Endpoint {
    type Err = InvalidEndpoint;

    fn from_str(text: &str) -> Result<Self, InvalidEndpoint> {
        let (scheme, rest) = text.split_once("://").ok_or(InvalidEndpoint::Form)?;
        let (transport, arrangement) = scheme.split_once('+').unwrap_or((scheme, ""));
        if !matches!(transport, "redis" | "rediss") {
            return Err(InvalidEndpoint::Form);
        }
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (first, others) = hosts.split_once(',').unwrap_or((hosts, ""));
        let nodes = others.split(',').filter(|node| !node.is_empty());
        let nodes = nodes.fold(String::new(), |list, node| list + "&node=" + node);
        let config = match arrangement {
            "" => Config::from_url_centralized(text),
            "cluster" => Config::from_url_clustered(&format!(
                "{transport}-cluster://{first}?{}",
                nodes.trim_start_matches('&')
            )),
            "sentinel" => {
                let (master, db) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return Err(InvalidEndpoint::NoMaster);
                }
                Config::from_url_sentinel(&format!(
                    "{transport}-sentinel://{first}/{db}?sentinelServiceName={master}{nodes}"
                ))
            }
            _ => return Err(InvalidEndpoint::Form),
        };
        config.map(Self).map_err(InvalidEndpoint::Url)
    }
}

impl TryFrom<&str> for Endpoint {
    type Error = InvalidEndpoint;

    fn try_from(text: &str) -> Result<Self, InvalidEndpoint> {
        text.parse()
    }
}

/// Shows the arrangement alone: addresses come with passwords.
impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0.server {
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
    /// The text is not of a form that is known.
    #[error(
        "address is not of a known form: write such as redis://host:6379, redis+cluster://host:7000,host:7001 or redis+sentinel://host:26379/master"
    )]
    Form,
    /// Sentinels were named but not whom they watch.
    #[error(
        "no master is named: write it after the sentinels, as in redis+sentinel://host:26379/master"
    )]
    NoMaster,
    /// The client refused the address.
    #[error("address is not a URL of Redis, or needs the feature tls")]
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
        for text in [
            "",
            "localhost",
            "http://a",
            "redis+ring://a:1",
            "redis+sentinel://a:1",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text:?} was accepted");
        }
    }
}
