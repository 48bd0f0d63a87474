//! [`StoreUnderTest`]: what a law needs of a store.

use std::sync::Arc;

use limiter_core::RateLimiterRepository;

use crate::{ManualClock, ManualRandom};

/// A store, set up so that the laws can be told of it. Made anew for each law.
///
/// The store starts empty, reads its time from [`clock`](Self::clock) and its chance from [`random`](Self::random). One
/// that keeps its state on a server takes a prefix of its own, so that laws run side by side.
///
/// # Examples
/// See [`store_laws!`](crate::store_laws).
pub trait StoreUnderTest {
    /// Returns the store.
    fn store(&self) -> Arc<dyn RateLimiterRepository>;

    /// Returns the clock that the store reads.
    fn clock(&self) -> ManualClock;

    /// Returns the source that the store draws from.
    fn random(&self) -> ManualRandom;

    /// Counts the keys that the store holds anything of, be it live or outlived.
    ///
    /// A store on a server counts what it finds under its prefix.
    fn tracked_keys(&self) -> impl Future<Output = usize> + Send;

    /// Frees what has outlived its time to live by [`clock`](Self::clock), as the store does by itself sooner or later.
    ///
    /// A store whose server expires entries by a clock of its own deletes here what that server would have deleted.
    fn forget_idle(&self) -> impl Future<Output = ()> + Send;
}
