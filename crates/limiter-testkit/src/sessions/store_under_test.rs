//! [`SessionStoreUnderTest`]: what a law needs of a store of sessions.

use std::sync::Arc;

use limiter_sessions::SessionPorts;

use crate::ManualClock;

/// A store of sessions, set up so that the laws can be told of it. Made anew for each law.
///
/// The store starts empty and reads its time from [`clock`](Self::clock). One that keeps its state on a server takes a
/// prefix of its own, so that laws run side by side.
///
/// # Examples
/// See [`session_laws!`](crate::session_laws).
pub trait SessionStoreUnderTest {
    /// Returns the store.
    fn store(&self) -> Arc<dyn SessionPorts>;

    /// Returns the store as another node has it: with connections of its own, on the same state.
    fn node(&self) -> Arc<dyn SessionPorts> {
        self.store()
    }

    /// Returns the clock that the store reads.
    fn clock(&self) -> ManualClock;

    /// Returns about how many calls a law of racing callers makes.
    fn racing_calls(&self) -> u32;

    /// Returns how many nonces racing callers offer, each of them 16 times.
    fn racing_nonces(&self) -> u32 {
        self.racing_calls() / 16
    }

    /// Counts what the store holds of sessions, addresses, anomalies and clusters, be it live or outlived; nonces aside.
    fn kept(&self) -> impl Future<Output = usize> + Send;

    /// Frees what has outlived its time by [`clock`](Self::clock), as the store does by itself sooner or later.
    fn forget_idle(&self) -> impl Future<Output = ()> + Send;

    /// Counts the keys that nothing would ever free: those without a time to live, on a server.
    fn immortal_keys(&self) -> impl Future<Output = usize> + Send;

    /// Returns the names of all keys; none where there are no names.
    fn key_names(&self) -> impl Future<Output = Vec<Vec<u8>>> + Send;
}
