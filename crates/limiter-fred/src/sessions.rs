//! Sessions, nonces, IP signals, anomalies and clusters: what [`FredStoreBuilder`] builds beside a store of limits.

use std::sync::Arc;

use limiter_lua::SessionRunner;
use limiter_sessions::{SessionPorts, TagKey};

use crate::builder::FredStoreBuilder;
use crate::endpoint::InvalidEndpoint;

impl FredStoreBuilder {
    /// Builds a store of sessions, nonces, IP signals, anomalies and clusters. Nothing is connected yet.
    ///
    /// All nodes that share it share `tags`. Where it draws from is its own affair:
    /// [`with_random`](Self::with_random) does not matter to it.
    ///
    /// # Errors
    /// [`InvalidEndpoint`] if the client refuses the addresses, or nothing was given to call on.
    ///
    /// # Examples
    /// ```
    /// use limiter_fred::{Endpoint, FredStore};
    /// use limiter_sessions::{SessionService, TagKey};
    ///
    /// let tags = TagKey::new("a secret that all nodes know, and nobody else")?;
    /// let store = FredStore::builder("redis://127.0.0.1:6379".parse::<Endpoint>()?).build_sessions(tags)?;
    /// let visitors = SessionService::on(store);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build_sessions(self, tags: TagKey) -> Result<Arc<dyn SessionPorts>, InvalidEndpoint> {
        Ok(Arc::new(SessionRunner::new(self.build_runner()?, tags)))
    }
}
