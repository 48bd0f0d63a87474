//! [`PoolSizing`]: how many connections a load needs, and why.

use std::fmt;
use std::time::Duration;

use super::Connections;

/// How many connections a load needs, and why. It prints itself as the calculation.
///
/// Little's law: calls under way = calls per second x the time that one takes. A pool that lends a connection to one call at a
/// time needs that many, and some to spare. A multiplexed connection carries them together, so that a store needs one for
/// every [`CALLS_PER_CONNECTION`](Self::CALLS_PER_CONNECTION) of them.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use limiter_lua::PoolSizing;
///
/// let sizing = PoolSizing::new(10_000, Duration::from_micros(500));
/// assert_eq!((sizing.calls_under_way(), sizing.connections().get()), (10, 1));
/// assert_eq!(
///     sizing.to_string(),
///     "10000 calls/s x 500µs x 2.00 to spare = 10 calls under way: a pool that lends connections would need 10; \
///      1 multiplexed connection carries them, at up to 256 each"
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a calculation does nothing until it is read"]
pub struct PoolSizing {
    calls_per_second: u32,
    call: Duration,
    spare_percent: u16,
}

impl PoolSizing {
    /// How many calls at once one multiplexed connection carries without slowing them down; the throughput of a store on one
    /// connection still grows up to here.
    pub const CALLS_PER_CONNECTION: u32 = 256;

    /// Takes the calls of one node per second at its busiest, and how long one takes there and back. To spare, twice that.
    pub const fn new(calls_per_second: u32, call: Duration) -> Self {
        Self {
            calls_per_second,
            call,
            spare_percent: 200,
        }
    }

    /// Sets the safety factor in percent: 200 for twice what is expected, 100 for nothing to spare.
    pub const fn with_safety_percent(mut self, percent: u16) -> Self {
        self.spare_percent = percent;
        self
    }

    /// Returns how many calls are under way at once, rounded up; what a pool that lends its connections would need.
    #[must_use]
    pub fn calls_under_way(&self) -> u32 {
        let busy_us = u128::from(self.calls_per_second)
            .saturating_mul(self.call.as_micros())
            .saturating_mul(self.spare_percent.into());
        u32::try_from(busy_us.div_ceil(100 * 1_000_000)).unwrap_or(u32::MAX)
    }

    /// Returns how many multiplexed connections carry them: at least one, and at most [`Connections::MAX`].
    #[must_use]
    pub fn connections(&self) -> Connections {
        let needed = self.calls_under_way().div_ceil(Self::CALLS_PER_CONNECTION);
        let needed = needed.clamp(1, Connections::MAX.into());
        let needed = u8::try_from(needed).unwrap_or(Connections::MAX);
        Connections::new(needed).unwrap_or(Connections::ONE)
    }
}

impl fmt::Display for PoolSizing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (under_way, connections) = (self.calls_under_way(), self.connections().get());
        write!(
            f,
            "{} calls/s x {:?} x {}.{:02} to spare = {under_way} calls under way: a pool that lends connections would need \
             {under_way}; {connections} multiplexed {} them, at up to {} each",
            self.calls_per_second,
            self.call,
            self.spare_percent / 100,
            self.spare_percent % 100,
            if connections == 1 {
                "connection carries"
            } else {
                "connections carry"
            },
            Self::CALLS_PER_CONNECTION,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_load_gets_a_number_of_connections() {
        for (calls, call_us, percent, under_way, connections) in [
            (0, 0, 100, 0, 1),
            (1000, 5_000, 150, 8, 1),
            (100_000, 1_280, 200, 256, 1),
            (100_000, 1_281, 200, 257, 2),
            (u32::MAX, u64::MAX, u16::MAX, u32::MAX, Connections::MAX),
        ] {
            let sizing = PoolSizing::new(calls, Duration::from_micros(call_us));
            let sizing = sizing.with_safety_percent(percent);
            assert_eq!(sizing.calls_under_way(), under_way, "{sizing}");
            assert_eq!(sizing.connections().get(), connections, "{sizing}");
        }
    }
}
