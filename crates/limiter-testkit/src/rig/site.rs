//! [`Site`]: servers that the tests of a process share.

use std::sync::LazyLock;

#[cfg(feature = "sessions")]
use super::SESSION_PERMISSIONS;
use super::{PERMISSIONS, acl_user};
use crate::server::{Flavour, RedisCluster, RedisServer};

/// Servers that the tests of a process share; each is started when it is first asked for.
///
/// Tests keep apart by the prefix of their keys, and so run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// One Redis.
    Redis,
    /// One Valkey.
    Valkey,
    /// One Redis 6.2.
    Redis62,
    /// One Redis 8.
    Redis8,
    /// One Valkey 8.
    Valkey8,
    /// A Redis Cluster of three masters.
    Cluster,
    /// One Redis, on which the store's user may do no more than the README of the stores asks for.
    Restricted,
    /// The same for a store of sessions.
    #[cfg(feature = "sessions")]
    RestrictedSessions,
}

static REDIS: LazyLock<RedisServer> = LazyLock::new(|| started(Flavour::Redis));
static VALKEY: LazyLock<RedisServer> = LazyLock::new(|| started(Flavour::Valkey));
static REDIS_6_2: LazyLock<RedisServer> = LazyLock::new(|| started(Flavour::Redis62));
static REDIS_8: LazyLock<RedisServer> = LazyLock::new(|| started(Flavour::Redis8));
static VALKEY_8: LazyLock<RedisServer> = LazyLock::new(|| started(Flavour::Valkey8));
#[expect(clippy::expect_used, reason = "without a server there is no test")]
static CLUSTER: LazyLock<RedisCluster> =
    LazyLock::new(|| RedisCluster::start(Flavour::Redis).expect("a cluster starts"));
static RESTRICTED: LazyLock<RedisServer> = LazyLock::new(|| restricted(PERMISSIONS));
#[cfg(feature = "sessions")]
static RESTRICTED_SESSIONS: LazyLock<RedisServer> =
    LazyLock::new(|| restricted(SESSION_PERMISSIONS));

#[expect(clippy::expect_used, reason = "without a server there is no test")]
fn restricted(permissions: &str) -> RedisServer {
    // The prefixes of tests begin with a t.
    let user = acl_user("limiter", "t*", permissions);
    let server = RedisServer::builder(Flavour::Redis).with_acl_user(user);
    server.start().expect("the server starts")
}

#[expect(clippy::expect_used, reason = "without a server there is no test")]
fn started(flavour: Flavour) -> RedisServer {
    RedisServer::start(flavour).expect("the server starts")
}

impl Site {
    /// Returns the address, in the form that the stores read.
    ///
    /// # Panics
    /// If the servers do not start.
    #[must_use]
    pub fn address(self) -> String {
        match self {
            Self::Redis => REDIS.url(),
            Self::Valkey => VALKEY.url(),
            Self::Redis62 => REDIS_6_2.url(),
            Self::Redis8 => REDIS_8.url(),
            Self::Valkey8 => VALKEY_8.url(),
            Self::Cluster => CLUSTER.address(),
            Self::Restricted => RESTRICTED.url_as("limiter", "secret"),
            #[cfg(feature = "sessions")]
            Self::RestrictedSessions => RESTRICTED_SESSIONS.url_as("limiter", "secret"),
        }
    }

    /// Returns every server of the site.
    ///
    /// # Panics
    /// If the servers do not start.
    #[must_use]
    pub fn nodes(self) -> Vec<&'static RedisServer> {
        match self {
            Self::Redis => vec![&REDIS],
            Self::Valkey => vec![&VALKEY],
            Self::Redis62 => vec![&REDIS_6_2],
            Self::Redis8 => vec![&REDIS_8],
            Self::Valkey8 => vec![&VALKEY_8],
            Self::Cluster => CLUSTER.nodes().collect(),
            Self::Restricted => vec![&RESTRICTED],
            #[cfg(feature = "sessions")]
            Self::RestrictedSessions => vec![&RESTRICTED_SESSIONS],
        }
    }
}
