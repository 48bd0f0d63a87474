use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

/// Which way bytes flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Replies,
    /// Both ways.
    Both,
}

/// A way in which bytes flow badly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Toxic {
    /// Every byte arrives `delay` later, and up to `jitter` more, drawn from the proxy's seed. Order is kept, and
    /// bytes that are on their way do not hold up those behind them.
    Latency {
        /// The least delay.
        delay: Duration,
        /// The most that is added to it.
        jitter: Duration,
    },
    /// No more than this many bytes in a second.
    Bandwidth {
        /// The bound.
        bytes_per_second: NonZeroU32,
    },
    /// Bytes arrive in pieces, each on its own.
    Slices {
        /// Length of a piece in bytes; the last one may be shorter.
        size: NonZeroUsize,
        /// Pause after each piece.
        gap: Duration,
    },
    /// Nothing arrives until the proxy is healed; then all of it does, as after a short network outage.
    Stall,
    /// Nothing arrives, ever: a connection that lost a byte to this stays silent, also once the proxy is healed.
    Blackhole,
}

impl Toxic {
    /// One byte at a time, without pause.
    pub const ONE_BYTE_SLICES: Self = Self::Slices {
        size: NonZeroUsize::MIN,
        gap: Duration::ZERO,
    };
}

/// At most one toxic of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ToxicSet {
    pub(super) latency: Option<(Duration, Duration)>,
    pub(super) bandwidth: Option<NonZeroU32>,
    pub(super) slices: Option<(NonZeroUsize, Duration)>,
    pub(super) stall: bool,
    pub(super) blackhole: bool,
}

impl ToxicSet {
    pub(super) fn add(&mut self, toxic: Toxic) {
        match toxic {
            Toxic::Latency { delay, jitter } => self.latency = Some((delay, jitter)),
            Toxic::Bandwidth { bytes_per_second } => self.bandwidth = Some(bytes_per_second),
            Toxic::Slices { size, gap } => self.slices = Some((size, gap)),
            Toxic::Stall => self.stall = true,
            Toxic::Blackhole => self.blackhole = true,
        }
    }
}
