//! [`AbuseStoreUnderTest`]: what a law needs of a store of attempts.

use std::sync::Arc;

use limiter_core::{AbusePolicy, AbuseRepository, Key};

use crate::ManualClock;

/// A store of attempts and blocks, set up so that the laws can be told of it. Made anew for each law.
///
/// The store starts empty and reads its time from [`clock`](Self::clock). One that keeps its state on a server takes a
/// prefix of its own, so that laws run side by side.
///
/// # Examples
/// See [`abuse_laws!`](crate::abuse_laws).
pub trait AbuseStoreUnderTest {
    /// Returns the store.
    fn store(&self) -> Arc<dyn AbuseRepository>;

    /// Returns the clock that the store reads.
    fn clock(&self) -> ManualClock;

    /// Counts the keys that the store holds anything of, be it live or outlived.
    fn tracked_keys(&self) -> impl Future<Output = usize> + Send;

    /// Frees what has outlived its time to live by [`clock`](Self::clock), as the store does by itself sooner or later.
    fn forget_idle(&self) -> impl Future<Output = ()> + Send;

    /// Returns how many bytes the store holds for `key` under `policy`; `None` if it cannot say.
    fn bytes_of(
        &self,
        key: &Key,
        policy: &AbusePolicy,
    ) -> impl Future<Output = Option<usize>> + Send;

    /// Counts the keys that nothing would ever free: those without a time to live, on a server.
    fn immortal_keys(&self) -> impl Future<Output = usize> + Send;
}
