//! [`Address`]: which servers, and in which arrangement, as text.

/// Which servers, and in which arrangement, as text; the same for every client.
///
/// # Examples
/// ```
/// use limiter_lua::{Address, Arrangement, InvalidAddress};
///
/// let address = Address::read("redis+sentinel://ann:pw@10.0.0.1:26379,10.0.0.2:26379/main/2")?;
/// assert_eq!(address.arrangement, Arrangement::Sentinel { master: "main", db: "2" });
/// assert_eq!((address.user, address.hosts.len()), ("ann:pw@", 2));
/// assert_eq!(Address::read("http://10.0.0.1"), Err(InvalidAddress::Form));
/// # Ok::<(), InvalidAddress>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Address<'a> {
    /// `redis`, or `rediss` for TLS.
    pub transport: &'a str,
    /// User and password with the sign behind them, as in `user:password@`; may be empty.
    pub user: &'a str,
    /// Host and port of each node that is named.
    pub hosts: Vec<&'a str>,
    /// In which arrangement they are.
    pub arrangement: Arrangement<'a>,
}

/// In which arrangement servers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement<'a> {
    /// One server.
    Standalone,
    /// A cluster, found through any of its nodes.
    Cluster,
    /// A primary that sentinels name.
    Sentinel {
        /// What they call it.
        master: &'a str,
        /// The database on it; may be empty.
        db: &'a str,
    },
}

/// Says why a text is no [`Address`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidAddress {
    /// The text is not of a form that is known.
    #[error(
        "address is not of a known form: write such as redis://host:6379, redis+cluster://host:7000,host:7001 or redis+sentinel://host:26379/master"
    )]
    Form,
    /// No node was named.
    #[error("no node is named: name at least one")]
    NoNodes,
    /// The database is no number.
    #[error("the database is no number: write digits alone, as in redis://host:6379/2")]
    Database,
    /// Sentinels were named but not whom they watch.
    #[error(
        "no master is named: write it after the sentinels, as in redis+sentinel://host:26379/master"
    )]
    NoMaster,
}

impl<'a> Address<'a> {
    /// Reads an address.
    ///
    /// # Errors
    /// [`InvalidAddress`] if the text is of no form that is known.
    pub fn read(text: &'a str) -> Result<Self, InvalidAddress> {
        let (scheme, rest) = text.split_once("://").ok_or(InvalidAddress::Form)?;
        let (transport, arrangement) = scheme.split_once('+').unwrap_or((scheme, ""));
        let (nodes, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, nodes) = nodes.split_at(nodes.rfind('@').map_or(0, |at| at + 1));
        let hosts: Vec<_> = nodes.split(',').filter(|node| !node.is_empty()).collect();
        let arrangement = match (transport, arrangement) {
            ("redis" | "rediss", "") => Arrangement::Standalone,
            ("redis" | "rediss", "cluster") => Arrangement::Cluster,
            ("redis" | "rediss", "sentinel") => {
                let (master, db) = path.split_once('/').unwrap_or((path, ""));
                Arrangement::Sentinel { master, db }
            }
            _ => return Err(InvalidAddress::Form),
        };
        let db = match arrangement {
            Arrangement::Standalone => path,
            Arrangement::Cluster => "",
            Arrangement::Sentinel { db, .. } => db,
        };
        match arrangement {
            _ if hosts.is_empty() => Err(InvalidAddress::NoNodes),
            _ if !is_database(db) => Err(InvalidAddress::Database),
            Arrangement::Sentinel { master: "", .. } => Err(InvalidAddress::NoMaster),
            _ => Ok(Self {
                transport,
                user,
                hosts,
                arrangement,
            }),
        }
    }
}

/// Returns whether that is the number of a database, or none, and what clients take after it.
fn is_database(path: &str) -> bool {
    let (db, _) = path.split_once('?').unwrap_or((path, ""));
    db.bytes().all(|byte| byte.is_ascii_digit())
}

/// Leaves user and password out.
impl std::fmt::Debug for Address<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Address")
            .field("transport", &self.transport)
            .field("hosts", &self.hosts)
            .field("arrangement", &self.arrangement)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_no_known_form_are_refused() {
        for (text, problem) in [
            ("", InvalidAddress::Form),
            ("localhost", InvalidAddress::Form),
            ("http://a", InvalidAddress::Form),
            ("redis+ring://a:1", InvalidAddress::Form),
            ("redis+sentinel://a:1", InvalidAddress::NoMaster),
            ("redis+sentinel://a:1/", InvalidAddress::NoMaster),
            ("redis+cluster://", InvalidAddress::NoNodes),
            ("redis://a:1/+2", InvalidAddress::Database),
            ("redis://a:1/x", InvalidAddress::Database),
            ("redis+sentinel://a:1/main/+2", InvalidAddress::Database),
            ("redis+cluster://u:p@,", InvalidAddress::NoNodes),
        ] {
            assert_eq!(Address::read(text), Err(problem), "{text:?}");
        }
    }

    #[test]
    fn passwords_may_hold_an_at_sign_and_are_not_shown() {
        let address = Address::read("rediss+cluster://u:p@ss@a:1,b:2").unwrap();
        assert_eq!(
            (address.user, &address.hosts[..]),
            ("u:p@ss@", &["a:1", "b:2"][..])
        );
        assert!(!format!("{address:?}").contains("p@ss"));
    }
}
