//! [`MemorySessionStoreBuilder`]: a store with other than the usual settings.

use std::sync::Arc;

use limiter_core::Clock;
use limiter_sessions::TagKey;

use super::MemorySessionStore;
use crate::{InvalidMaxKeys, SystemClock};

/// Builds a [`MemorySessionStore`].
///
/// | setting | default | refused |
/// |---|---|---|
/// | [`max_keys`](Self::max_keys) | 100,000 | 0: [`InvalidMaxKeys`] |
/// | [`clock`](Self::clock) | [`SystemClock`] | |
/// | [`tag_key`](Self::tag_key) | a random one | |
///
/// # Examples
/// ```
/// use limiter_memory::MemorySessionStore;
///
/// let store = MemorySessionStore::builder().max_keys(10_000).build()?;
/// assert!(MemorySessionStore::builder().max_keys(0).build().is_err());
/// # Ok::<(), limiter_memory::InvalidMaxKeys>(())
/// ```
#[must_use = "a builder does nothing until it builds"]
pub struct MemorySessionStoreBuilder {
    pub(super) max_keys: usize,
    clock: Option<Arc<dyn Clock>>,
    tags: Option<TagKey>,
}

impl MemorySessionStoreBuilder {
    pub(super) const fn new() -> Self {
        Self {
            max_keys: 100_000,
            clock: None,
            tags: None,
        }
    }

    /// Sets how many sessions, how many addresses and how many nonces are kept at once, each: at least 1.
    ///
    /// When there are so many, a new one takes the place of one that has expired. If none has, a visit or a nonce gets
    /// [`StoreError::Full`](limiter_core::StoreError::Full), and an address gets no signals. None that lives is evicted.
    pub const fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// Sets the clock. It is read with a lock held: it must not call the store.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets the secret of tags, so that ids of sessions stay the same kind from one store to the next.
    pub fn tag_key(mut self, tags: TagKey) -> Self {
        self.tags = Some(tags);
        self
    }

    /// Builds the store.
    ///
    /// # Errors
    /// [`InvalidMaxKeys`] if nothing may be kept.
    pub fn build(self) -> Result<MemorySessionStore, InvalidMaxKeys> {
        if self.max_keys == 0 {
            return Err(InvalidMaxKeys);
        }
        Ok(self.build_checked())
    }

    pub(super) fn build_checked(self) -> MemorySessionStore {
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        MemorySessionStore::with(self.max_keys, clock, self.tags)
    }
}

impl std::fmt::Debug for MemorySessionStoreBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemorySessionStoreBuilder")
            .field("max_keys", &self.max_keys)
            .finish_non_exhaustive()
    }
}
