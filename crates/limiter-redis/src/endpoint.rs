//! [`Endpoint`]: which servers, and in which arrangement.

use limiter_lua::{Address, Arrangement as Form, InvalidAddress};
use redis::{ConnectionInfo, IntoConnectionInfo, RedisError};

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
    pub(crate) arrangement: Arrangement,
    /// The authorities to trust instead of the system's, in PEM.
    #[cfg(feature = "tls")]
    pub(crate) roots: Option<Vec<u8>>,
}

#[derive(Clone)]
pub(crate) enum Arrangement {
    Standalone(Box<ConnectionInfo>),
    Cluster(Vec<ConnectionInfo>),
    Sentinel {
        sentinels: Vec<ConnectionInfo>,
        master: String,
        server: Box<ConnectionInfo>,
    },
}

impl Endpoint {
    const fn new(arrangement: Arrangement) -> Self {
        Self {
            arrangement,
            #[cfg(feature = "tls")]
            roots: None,
        }
    }

    /// Trusts the authorities in `pem` and not those of the system: for servers with certificates of one's own. Behind
    /// sentinels it holds for these, too, and redis-rs then takes the first sentinel's user for all of them.
    ///
    /// # Errors
    /// [`InvalidEndpoint`] if there is no certificate in `pem`, or a damaged one.
    #[cfg(feature = "tls")]
    pub fn with_root_certificates(mut self, pem: &[u8]) -> Result<Self, InvalidEndpoint> {
        crate::tls::certificates(pem).ok_or(InvalidEndpoint::Certificates)?;
        self.roots = Some(pem.to_vec());
        Ok(self)
    }

    /// Takes one server, by its URL.
    ///
    /// # Errors
    /// [`InvalidEndpoint`] if the URL is none of Redis.
    pub fn standalone(url: &str) -> Result<Self, InvalidEndpoint> {
        Ok(Self::new(Arrangement::Standalone(Box::new(info(url)?))))
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
            server: Box::new(info(server)?),
        }))
    }
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
    /// The client refused the addresses as a whole.
    #[error("addresses do not go together")]
    Client(#[source] RedisError),
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
