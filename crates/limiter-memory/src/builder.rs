//! [`MemoryStoreBuilder`]: a store with other than the usual settings.

use std::sync::Arc;

use limiter_core::{Clock, RandomSource};

use crate::fingerprint::Secret;
use crate::store_clock::StoreClock;
use crate::{MemoryAbuseStore, MemoryStore, SystemClock, SystemRandom};

/// Builds a [`MemoryStore`] or a [`MemoryAbuseStore`].
///
/// | setting | default | refused |
/// |---|---|---|
/// | [`max_keys`](Self::max_keys) | 1,000,000 | 0: [`InvalidMaxKeys`] |
/// | [`clock`](Self::clock) | [`SystemClock`] | |
/// | [`random`](Self::random) | [`SystemRandom`] | |
///
/// # Examples
/// ```
/// use limiter_memory::MemoryStore;
///
/// let store = MemoryStore::builder().max_keys(50_000).build()?;
/// assert_eq!(store.stats().max_keys, 50_000);
/// assert!(MemoryStore::builder().max_keys(0).build().is_err());
/// # Ok::<(), limiter_memory::InvalidMaxKeys>(())
/// ```
#[must_use = "a builder does nothing until it builds"]
pub struct MemoryStoreBuilder {
    max_keys: usize,
    clock: Option<Arc<dyn Clock>>,
    random: Option<Arc<dyn RandomSource>>,
    #[cfg(feature = "_replay")]
    seed: Option<u64>,
}

/// The most keys that a store tracks if nobody says otherwise.
const DEFAULT_MAX_KEYS: usize = 1_000_000;

impl MemoryStoreBuilder {
    pub(crate) const fn new() -> Self {
        Self {
            max_keys: DEFAULT_MAX_KEYS,
            clock: None,
            random: None,
            #[cfg(feature = "_replay")]
            seed: None,
        }
    }

    /// Makes the secret of a `MemoryStore` known, so that a run can be replayed call by call: not for who has strangers for keys.
    #[cfg(feature = "_replay")]
    #[doc(hidden)]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the most keys that may hold state at once: at least 1.
    ///
    /// A key with one token-bucket or fixed-window plan takes 48 to 60 bytes. Nothing is allocated ahead.
    ///
    /// # When the store is full
    /// - Keys that hold state keep it, exactly, and are decided as ever.
    /// - A new key first takes the place of one whose state has expired, if its part of the table has one.
    /// - Otherwise it is turned away with [`StoreError::Full`](limiter_core::StoreError::Full), nothing is charged, and
    ///   [`MemoryStats::refused_new_keys`](crate::MemoryStats::refused_new_keys) counts it. What becomes of the request
    ///   is up to the rate limiter that asked: by default it fails open, and every new key is unlimited; with
    ///   [`denying_when_full`](limiter_core::DefaultRateLimiter::denying_when_full) it is turned away.
    ///
    /// No live key is ever evicted: a flood of new keys could otherwise give spent keys a fresh start.
    pub const fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// Sets the clock that decisions are made by. It must not call the store: a [`MemoryAbuseStore`] reads it with a lock held.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets where suppressing windows draw from. It must not call the store, which draws with a lock held, and should return at once.
    /// The secret of the table never comes from here.
    pub fn random(mut self, random: Arc<dyn RandomSource>) -> Self {
        self.random = Some(random);
        self
    }

    /// Builds the store.
    ///
    /// # Errors
    /// [`InvalidMaxKeys`] if no key may hold state.
    pub fn build(self) -> Result<MemoryStore, InvalidMaxKeys> {
        if self.max_keys == 0 {
            return Err(InvalidMaxKeys);
        }
        Ok(self.build_checked())
    }

    /// Builds a store of attempts and blocks. It draws nothing at random.
    ///
    /// # Errors
    /// [`InvalidMaxKeys`] if no key may hold state.
    pub fn build_abuse_store(self) -> Result<MemoryAbuseStore, InvalidMaxKeys> {
        if self.max_keys == 0 {
            return Err(InvalidMaxKeys);
        }
        Ok(self.build_abuse_store_checked())
    }

    pub(crate) fn build_abuse_store_checked(self) -> MemoryAbuseStore {
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        MemoryAbuseStore::with(self.max_keys, clock)
    }

    pub(crate) fn build_checked(self) -> MemoryStore {
        let clock = StoreClock::new(self.clock);
        let random = self.random.unwrap_or_else(|| Arc::new(SystemRandom));
        #[cfg(feature = "_replay")]
        let secret = self.seed.map_or_else(Secret::random, Secret::of_seed);
        #[cfg(not(feature = "_replay"))]
        let secret = Secret::random();
        MemoryStore::with(self.max_keys, secret, clock, random)
    }
}

impl std::fmt::Debug for MemoryStoreBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStoreBuilder")
            .field("max_keys", &self.max_keys)
            .finish_non_exhaustive()
    }
}

/// Says that a store was to track no key at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("max_keys is 0: a store tracks at least 1 key; leave it out for 1000000")]
pub struct InvalidMaxKeys;
