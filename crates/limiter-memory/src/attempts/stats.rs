//! [`AttemptStats`]: how full a store of attempts is.

/// How full a [`MemoryAbuseStore`](crate::MemoryAbuseStore) is, and what its cap cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttemptStats {
    /// Keys under policies that hold state now, those that went idle and were not yet swept included.
    pub tracked_keys: usize,
    /// The most of them that may hold state at once.
    pub max_keys: usize,
    /// New ones that were turned away with [`StoreError::Full`](limiter_core::StoreError::Full) because the store was
    /// full. Above zero: raise the cap, or shorten the windows.
    pub refused_new_keys: u64,
}
