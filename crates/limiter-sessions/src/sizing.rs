//! Calculators: how many connections, how much memory.
//!
//! They multiply and round up; what goes in is measured. `cargo xtask figures sessions` in the
//! repository measures it.

use std::time::Duration;

use crate::{IpSignal, Retention};

/// Bytes that a session takes on a server at most, its place in the list of its fingerprint included. What is known of its address
/// comes on top: [`ADDRESS_BYTES`].
pub const SESSION_BYTES: u64 = 600;
/// Bytes that what is known of an address with one fingerprint takes on a server at most, for [`IpSignal::RETENTION`] after its
/// latest visit. One that shows several takes about twice that, one that shows thousands up to 12 KiB more.
pub const ADDRESS_BYTES: u64 = 300;
/// Bytes that a nonce takes on a server at most.
pub const NONCE_BYTES: u64 = 150;

/// Returns how many connections a pool needs, if each serves one call at a time: calls under way at once by Little's law,
/// times a factor for bursts in per cent. At least 1.
///
/// The stores of this workspace send many calls over one connection: for those, `PoolSizing` of their crates says how many.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use limiter_sessions::sizing;
///
/// assert_eq!(sizing::pool_size(10_000, Duration::from_millis(1), 200), 20);
/// assert_eq!(sizing::pool_size(1, Duration::from_micros(500), 100), 1);
/// ```
#[must_use]
pub fn pool_size(calls_per_second: u64, call: Duration, safety_percent: u32) -> u64 {
    let busy_us = u128::from(calls_per_second).saturating_mul(call.as_micros());
    let scaled = busy_us.saturating_mul(safety_percent.into());
    let connections = scaled.div_ceil(100_000_000).max(1);
    u64::try_from(connections).unwrap_or(u64::MAX)
}

/// What a service sees, by which its memory is sized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Sessions that begin each second. Requests of sessions that are known take no more memory.
    pub new_sessions_per_second: u64,
    /// Addresses each second that were not seen in the last hour: as many as sessions, if each visitor has an address of their
    /// own.
    pub new_addresses_per_second: u64,
    /// How long a session is kept.
    pub session_retention: Retention,
    /// Nonces each second.
    pub nonces_per_second: u64,
    /// How long a nonce is remembered.
    pub nonce_window: Retention,
}

/// Returns the bytes that sessions, addresses and nonces take once the first of them expire, times a factor for safety in per cent.
///
/// # Examples
/// ```
/// use limiter_sessions::{Retention, sizing};
///
/// let load = sizing::Load {
///     new_sessions_per_second: 100,
///     new_addresses_per_second: 100,
///     session_retention: Retention::HOUR,
///     nonces_per_second: 10_000,
///     nonce_window: Retention::FIVE_MINUTES,
/// };
/// assert_eq!(sizing::memory_bytes(&load, 100), 216_000_000 + 108_000_000 + 450_000_000);
/// ```
#[must_use]
pub fn memory_bytes(load: &Load, safety_percent: u32) -> u64 {
    let sessions = kept(load.new_sessions_per_second, load.session_retention);
    let addresses = kept(load.new_addresses_per_second, IpSignal::RETENTION);
    let nonces = kept(load.nonces_per_second, load.nonce_window);
    let bytes = sessions
        .saturating_mul(SESSION_BYTES.into())
        .saturating_add(addresses.saturating_mul(ADDRESS_BYTES.into()))
        .saturating_add(nonces.saturating_mul(NONCE_BYTES.into()));
    let scaled = bytes.saturating_mul(safety_percent.into()).div_ceil(100);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

fn kept(per_second: u64, retention: Retention) -> u128 {
    let micros = u128::from(per_second).saturating_mul(retention.get().as_micros());
    micros.div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_numbers_saturate() {
        assert_eq!(pool_size(u64::MAX, Duration::MAX, u32::MAX), u64::MAX);
        let load = Load {
            new_sessions_per_second: u64::MAX,
            new_addresses_per_second: u64::MAX,
            session_retention: Retention::DAY,
            nonces_per_second: u64::MAX,
            nonce_window: Retention::DAY,
        };
        assert_eq!(memory_bytes(&load, u32::MAX), u64::MAX);
    }

    #[test]
    fn a_day_of_ten_thousand_new_sessions_a_second_is_half_a_terabyte() {
        let load = |session_retention| Load {
            new_sessions_per_second: 10_000,
            new_addresses_per_second: 0,
            session_retention,
            nonces_per_second: 0,
            nonce_window: Retention::FIVE_MINUTES,
        };
        assert_eq!(memory_bytes(&load(Retention::DAY), 100), 518_400_000_000);
        assert_eq!(memory_bytes(&load(Retention::HOUR), 150), 32_400_000_000);
    }

    #[test]
    fn addresses_are_kept_for_an_hour_however_long_sessions_are() {
        let load = Load {
            new_sessions_per_second: 0,
            new_addresses_per_second: 10_000,
            session_retention: Retention::DAY,
            nonces_per_second: 0,
            nonce_window: Retention::FIVE_MINUTES,
        };
        assert_eq!(memory_bytes(&load, 100), 10_800_000_000);
    }
}
