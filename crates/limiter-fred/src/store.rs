//! [`FredStore`]: the store on Redis and Valkey.

use async_trait::async_trait;
use fred::clients::Client;
use limiter_core::{Cost, Key, Plan, RateLimiterRepository, StoreError, Verdict};
use limiter_lua::{KeyLayout, Runner};

use crate::builder::FredStoreBuilder;
use crate::connector::Connector;
use crate::endpoint::{Endpoint, InvalidEndpoint};

/// The store on Redis and Valkey, through fred.
///
/// One call is one script on one key, and one round trip. It connects when it is first asked, and again by itself when
/// the connection breaks; a call answers or fails before its deadline, whatever the server does.
///
/// # Examples
/// ```no_run
/// use limiter_core::{Cost, Key, Plan, RateLimiterRepository};
/// use limiter_fred::FredStore;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = FredStore::connect("redis://127.0.0.1:6379")?;
/// let gold = [Plan::new("gold", "1/s burst 10")?];
/// let verdict = store.try_acquire(&Key::new("user:42")?, &gold, Cost::ONE).await?;
/// assert!(verdict.admitted);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FredStore(pub(crate) Runner<Connector>);

impl FredStore {
    /// Makes a store with the default prefix and deadline. Nothing is connected yet. [`Endpoint`] says what addresses
    /// look like.
    ///
    /// # Errors
    /// [`InvalidEndpoint`] if the address is not understood.
    pub fn connect(address: &str) -> Result<Self, InvalidEndpoint> {
        Self::builder(address.parse::<Endpoint>()?).build()
    }

    /// Returns a builder of a store that connects by itself.
    pub fn builder(endpoint: Endpoint) -> FredStoreBuilder {
        FredStoreBuilder::new(endpoint)
    }

    /// Returns a builder of a store on a client that the user has, and has connected. Reconnecting is then the client's
    /// own affair.
    ///
    /// Give a client of a cluster a `max_redirections` of 0 in its `ConnectionConfig`: fred lets no single call say so, and
    /// a call that it follows to where a slot has moved may fail as one that may have charged, though it has not.
    pub fn on(client: Client) -> FredStoreBuilder {
        Self::on_pool([client])
    }

    /// Returns a builder of a store on several clients that the user has, and has connected, such as those of a pool of
    /// fred's. It calls on them in turn.
    pub fn on_pool(clients: impl IntoIterator<Item = Client>) -> FredStoreBuilder {
        FredStoreBuilder::from_clients(clients.into_iter().collect())
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
impl RateLimiterRepository for FredStore {
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
