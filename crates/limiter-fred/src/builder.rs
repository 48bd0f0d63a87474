//! [`FredStoreBuilder`]: what a store can be told.

use std::sync::Arc;
use std::time::Duration;

use limiter_core::{Clock, RandomSource};
use limiter_lua::KeyLayout;

use crate::dial::Dial;
use crate::endpoint::{Endpoint, InvalidEndpoint};
use crate::link::Link;
use crate::store::FredStore;
use crate::system_random::SystemRandom;
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
    layout: KeyLayout,
    deadline: Duration,
    connect_timeout: Duration,
    parts: Parts,
}

#[derive(Debug)]
enum Source {
    Endpoint(Endpoint),
    Client(Client),
}

struct Parts {
    clock: Option<Arc<dyn Clock>>,
    random: Arc<dyn RandomSource>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.clock.is_some() {
            "own clock"
        } else {
            "server's clock"
        })
    }
}

impl FredStoreBuilder {
    /// The deadline of a call if none is named.
    pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(50);
    /// How long connecting may take if nothing is named. It goes on beyond the deadline of the call that began it.
    pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self::from_source(Source::Endpoint(endpoint))
    }

    pub(crate) fn from_client(client: Client) -> Self {
        Self::from_source(Source::Client(client))
    }

    fn from_source(source: Source) -> Self {
        Self {
            source,
            layout: KeyLayout::default(),
            deadline: Self::DEFAULT_DEADLINE,
            connect_timeout: Self::DEFAULT_CONNECT_TIMEOUT,
            parts: Parts {
                clock: None,
                random: Arc::new(SystemRandom),
            },
        }
    }

    /// Sets the layout of keys, and with it their prefix; `rl` if it is left out.
    pub fn with_layout(mut self, layout: KeyLayout) -> Self {
        self.layout = layout;
        self
    }

    /// Sets how long a call may take, whatever the server does; 50 ms if it is left out.
    pub const fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets how long connecting may take; a second if it is left out.
    pub const fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets where suppressing windows draw from.
    pub fn with_random(mut self, random: Arc<dyn RandomSource>) -> Self {
        self.parts.random = random;
        self
    }

    /// Decides by `clock` and not by the server's: for tests alone. Nodes with clocks of their own do not agree.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.parts.clock = Some(clock);
        self
    }

    /// Builds the store. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidEndpoint`] if the client refuses the addresses.
    pub fn build(self) -> Result<FredStore, InvalidEndpoint> {
        let dial = match self.source {
            Source::Endpoint(endpoint) => {
                Dial::new(endpoint.0, self.connect_timeout, self.deadline)
            }
            Source::Client(client) => Dial::given(client),
        };
        Ok(FredStore {
            link: Link::new(dial),
            layout: self.layout,
            deadline: self.deadline,
            clock: self.parts.clock,
            random: self.parts.random,
        })
    }
}
