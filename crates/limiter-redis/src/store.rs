//! [`RedisStore`]: the store on Redis and Valkey.

use async_trait::async_trait;
use limiter_core::{Cost, Key, Plan, RateLimiterRepository, StoreError, Verdict};
use limiter_lua::{KeyLayout, Runner};

use crate::builder::RedisStoreBuilder;
use crate::connection::Connection;
use crate::connector::Connector;
use crate::endpoint::{Endpoint, InvalidEndpoint};

/// The store on Redis and Valkey, through redis-rs.
///
/// One call is one script on one key, and one round trip. It connects when it is first asked, and again by itself when
/// the connection breaks; a call answers or fails before its deadline, whatever the server does.
///
/// # Examples
/// ```no_run
/// use limiter_core::{Cost, Key, Plan, RateLimiterRepository};
/// use limiter_redis::RedisStore;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::connect("redis://127.0.0.1:6379")?;
/// let gold = [Plan::new("gold", "1/s burst 10")?];
/// let verdict = store.try_acquire(&Key::new("user:42")?, &gold, Cost::ONE).await?;
/// assert!(verdict.admitted);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RedisStore(pub(crate) Runner<Connector>);

impl RedisStore {
    /// Makes a store with the default prefix and deadline. Nothing is connected yet. [`Endpoint`] says what addresses
    /// look like.
    ///
    /// # Errors
    /// [`InvalidEndpoint`] if the address is not understood.
    pub fn connect(address: &str) -> Result<Self, InvalidEndpoint> {
        Self::builder(address.parse::<Endpoint>()?).build()
    }

    /// Returns a builder of a store that connects by itself.
    pub fn builder(endpoint: Endpoint) -> RedisStoreBuilder {
        RedisStoreBuilder::new(endpoint)
    }

    /// Returns a builder of a store on a connection that the user has: a multiplexed one, a connection manager's or a
    /// cluster's. Reconnecting is then the connection's own affair.
    pub fn on(connection: impl Into<Connection>) -> RedisStoreBuilder {
        Self::on_pool([connection])
    }

    /// Returns a builder of a store on several connections that the user has, which it calls on in turn.
    pub fn on_pool<C: Into<Connection>>(
        connections: impl IntoIterator<Item = C>,
    ) -> RedisStoreBuilder {
        let connections = connections.into_iter().map(Into::into);
        RedisStoreBuilder::from_connections(connections.collect())
    }

    /// Returns where the state of a key is kept.
    #[must_use]
    pub const fn layout(&self) -> &KeyLayout {
        self.0.layout()
    }
}

/// # Cancel safety
/// A dropped call may still take effect, once: what was sent is not called back.
#[async_trait]
impl RateLimiterRepository for RedisStore {
    async fn try_acquire(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        self.0.try_acquire(key, plans, cost).await
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        self.0.peek(key, plans, cost).await
    }

    async fn refund(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        self.0.refund(key, plans, cost).await
    }

    async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        self.0.reset(key, plans).await
    }
}
