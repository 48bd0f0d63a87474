//! [`Settings`]: what a store can be told, whatever its client.

use std::sync::Arc;
use std::time::Duration;

use limiter_core::{Clock, RandomSource};

use super::{AddressMap, Connections, SystemRandom};
use crate::KeyLayout;

/// What a store can be told, whatever its client. The builders of the adapters say what each of them means.
#[derive(Clone)]
pub struct Settings {
    /// The layout of keys.
    pub layout: KeyLayout,
    /// How long a call may take.
    pub deadline: Duration,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// Where nodes are reached that servers name.
    pub address_map: AddressMap,
    /// How many connections calls are spread over; in a cluster to each node.
    pub connections: Connections,
    /// Whether every call is sent with its own keys alone.
    pub keeps_calls_apart: bool,
    /// The clock to decide by; the server's own if there is none.
    pub clock: Option<Arc<dyn Clock>>,
    /// Where suppressing windows draw from.
    pub random: Arc<dyn RandomSource>,
}

impl Settings {
    /// The deadline of a call if none is named.
    pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(50);
    /// How long connecting may take if nothing is named.
    pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            layout: KeyLayout::default(),
            deadline: Self::DEFAULT_DEADLINE,
            connect_timeout: Self::DEFAULT_CONNECT_TIMEOUT,
            address_map: AddressMap::default(),
            connections: Connections::ONE,
            keeps_calls_apart: false,
            clock: None,
            random: Arc::new(SystemRandom),
        }
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("prefix", &self.layout.prefix())
            .field("deadline", &self.deadline)
            .field("connect_timeout", &self.connect_timeout)
            .field("connections", &self.connections.get())
            .field("own_clock", &self.clock.is_some())
            .finish_non_exhaustive()
    }
}
