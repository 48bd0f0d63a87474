//! [`Connections`]: how many connections a store spreads its calls over.

use std::num::NonZeroU8;

/// How many connections a store spreads its calls over, in turn: 1 to 64.
///
/// Each is multiplexed: it carries many calls at once, so that one is enough for most services. [`PoolSizing`] tells how many
/// a load needs, and why.
///
/// [`PoolSizing`]: crate::PoolSizing
///
/// # Examples
/// ```
/// use limiter_lua::Connections;
///
/// assert_eq!(Connections::new(4)?.get(), 4);
/// assert!(Connections::new(0).is_err() && Connections::new(65).is_err());
/// # Ok::<(), limiter_lua::InvalidConnections>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connections(NonZeroU8);

impl Connections {
    /// One connection, for all calls.
    pub const ONE: Self = Self(NonZeroU8::MIN);
    /// The most that a store takes: a server has a place for 10,000 clients, and many nodes share it.
    pub const MAX: u8 = 64;

    /// Takes a number of connections.
    ///
    /// # Errors
    /// [`InvalidConnections`] if it is 0 or more than [`MAX`](Self::MAX).
    pub fn new(connections: u8) -> Result<Self, InvalidConnections> {
        NonZeroU8::new(connections)
            .filter(|_| connections <= Self::MAX)
            .map(Self)
            .ok_or(InvalidConnections)
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0.get()
    }
}

/// Says that a number of connections is none that a store takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a store takes 1 to 64 connections; one carries many calls at once")]
pub struct InvalidConnections;
