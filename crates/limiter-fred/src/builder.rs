//! [`FredStoreBuilder`]: what a store can be told.

use std::sync::Arc;
use std::time::Duration;

use limiter_core::{Clock, RandomSource};
use limiter_lua::{KeyLayout, Runner, Settings};

use crate::dial::Dial;
use crate::endpoint::{Endpoint, InvalidEndpoint};
use crate::store::FredStore;
use fred::clients::Client;

/// Builds a [`FredStore`].
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use limiter_fred::{KeyLayout, FredStore};
///
/// let store = FredStore::builder("redis://127.0.0.1:6379".parse::<limiter_fred::Endpoint>()?)
///     .with_layout(KeyLayout::new("shop")?)
///     .with_deadline(Duration::from_millis(20))
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct FredStoreBuilder {
    source: Source,
    settings: Settings,
}

#[derive(Debug)]
enum Source {
    Endpoint(Endpoint),
    Client(Client),
}

impl FredStoreBuilder {
    /// The deadline of a call if none is named.
    pub const DEFAULT_DEADLINE: Duration = Settings::DEFAULT_DEADLINE;
    /// How long connecting may take if nothing is named. It goes on beyond the deadline of the call that began it.
    pub const DEFAULT_CONNECT_TIMEOUT: Duration = Settings::DEFAULT_CONNECT_TIMEOUT;

    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self::from_source(Source::Endpoint(endpoint))
    }

    pub(crate) fn from_client(client: Client) -> Self {
        Self::from_source(Source::Client(client))
    }

    fn from_source(source: Source) -> Self {
        Self {
            source,
            settings: Settings::default(),
        }
    }

    /// Sets the layout of keys, and with it their prefix; `rl` if it is left out.
    pub fn with_layout(mut self, layout: KeyLayout) -> Self {
        self.settings.layout = layout;
        self
    }

    /// Sets how long a call may take, whatever the server does; 50 ms if it is left out.
    pub const fn with_deadline(mut self, deadline: Duration) -> Self {
        self.settings.deadline = deadline;
        self
    }

    /// Sets how long connecting may take; a second if it is left out.
    pub const fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// Sets where suppressing windows draw from.
    pub fn with_random(mut self, random: Arc<dyn RandomSource>) -> Self {
        self.settings.random = random;
        self
    }

    /// Decides by `clock` and not by the server's: for tests alone. Nodes with clocks of their own do not agree.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.settings.clock = Some(clock);
        self
    }

    /// Builds the store. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidEndpoint`] if the client refuses the addresses.
    pub fn build(self) -> Result<FredStore, InvalidEndpoint> {
        let dial = match self.source {
            Source::Endpoint(endpoint) => Dial::new(endpoint.0, &self.settings),
            Source::Client(client) => Dial::given(client),
        };
        Ok(FredStore(Runner::new(dial, self.settings)))
    }
}
