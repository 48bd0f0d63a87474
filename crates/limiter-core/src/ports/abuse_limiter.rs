//! [`AbuseLimiter`]: the inbound port that services call about attempts.

use async_trait::async_trait;

use crate::{AbuseDecision, AbusePolicy, Block, Key, StoreError};

/// Decides attempts: logins, sign-ups, codes to be verified.
///
/// Record every attempt before you look at the password, and forgive after a success: a burst then cannot slip through
/// between a question and an answer.
///
/// # Cancel safety
/// A dropped call may still take effect, once.
#[cfg_attr(any(test, feature = "mock"), mockall::automock)]
#[async_trait]
pub trait AbuseLimiter: Send + Sync {
    /// Counts an attempt of `key`, and says whether it may go on.
    ///
    /// A store that fails is no error here: the failure policy decides, and the decision says so.
    ///
    /// # Cancel safety
    /// A dropped call may still have counted the attempt, once, and started the block that it earns.
    async fn record(&self, key: &Key, policy: &AbusePolicy) -> AbuseDecision;

    /// Says whether `key` is blocked and how its counts stand, and changes nothing.
    ///
    /// A store that fails is no error here: the failure policy decides, and the decision says so.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    async fn status(&self, key: &Key, policy: &AbusePolicy) -> AbuseDecision;

    /// Forgets the attempts of `key`, after a success. A block in force stays.
    ///
    /// # Errors
    /// [`StoreError`] if the store did not confirm it.
    ///
    /// # Cancel safety
    /// A dropped call may still have forgotten the attempts.
    async fn forgive(&self, key: &Key, policy: &AbusePolicy) -> Result<(), StoreError>;

    /// Lifts the block of `key`, makes the key as new and returns the block; changes nothing if there is none.
    ///
    /// # Errors
    /// [`StoreError`] if the store did not confirm it.
    ///
    /// # Cancel safety
    /// A dropped call may still have lifted the block; which one it was is then not told.
    async fn unblock(&self, key: &Key, policy: &AbusePolicy) -> Result<Option<Block>, StoreError>;
}
