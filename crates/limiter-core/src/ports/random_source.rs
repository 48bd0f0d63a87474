//! [`RandomSource`]: the outbound port to chance.

/// Draws random bits for what needs chance; the core never draws by itself.
#[cfg_attr(any(test, feature = "mock"), mockall::automock)]
pub trait RandomSource: Send + Sync {
    /// Returns 64 evenly distributed bits.
    fn next_u64(&self) -> u64;
}
