//! [`Endpoint`]: which servers, and in which arrangement.

use fred::error::Error;
#[cfg(feature = "tls")]
use fred::types::config::TlsConnector;
use fred::types::config::{Config, ServerConfig};
use limiter_lua::{Address, Arrangement, InvalidAddress};

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

impl Endpoint {
    /// Trusts the authorities in `pem` and not those of the system: for servers with certificates of one's own.
    ///
    /// # Errors
    /// [`InvalidEndpoint`] if there is no certificate in `pem`, or a damaged one.
    #[cfg(feature = "tls")]
    pub fn with_root_certificates(mut self, pem: &[u8]) -> Result<Self, InvalidEndpoint> {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in crate::tls::certificates(pem).ok_or(InvalidEndpoint::Certificates)? {
            let added = roots.add(certificate);
            added.map_err(|_| InvalidEndpoint::Certificates)?;
        }
        let client = rustls::ClientConfig::builder().with_root_certificates(roots);
        let connector = TlsConnector::from(client.with_no_client_auth());
        self.0.tls = Some(connector.into());
        Ok(self)
    }
}

impl From<Config> for Endpoint {
    fn from(config: Config) -> Self {
        Self(config)
    }
}

impl std::str::FromStr for Endpoint {
    type Err = InvalidEndpoint;

    fn from_str(text: &str) -> Result<Self, InvalidEndpoint> {
        #[cfg(feature = "tls")]
        crate::tls::ensure_provider();
        let Address {
            transport,
            user,
            hosts,
            arrangement,
        } = Address::read(text)?;
        // fred takes user and password with the first node, and the others as parameters.
        let mut hosts = hosts.into_iter();
        let first = hosts.next().unwrap_or_default();
        let nodes = hosts.fold(String::new(), |list, node| list + "&node=" + node);
        let config = match arrangement {
            Arrangement::Standalone => Config::from_url_centralized(text),
            Arrangement::Cluster => Config::from_url_clustered(&format!(
                "{transport}-cluster://{user}{first}?{}",
                nodes.trim_start_matches('&')
            )),
            Arrangement::Sentinel { master, db } => Config::from_url_sentinel(&format!(
                "{transport}-sentinel://{user}{first}/{db}?sentinelServiceName={master}{nodes}"
            )),
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
    /// The text is of no form that is known.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// The authorities to trust are not certificates in PEM.
    #[cfg(feature = "tls")]
    #[error("no certificate in PEM, or a damaged one: give those of the authorities to trust")]
    Certificates,
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
    }
}
