//! [`AbuseRepository`]: the outbound port to attempts and blocks that all nodes share.

use async_trait::async_trait;

use crate::{AbusePolicy, AbuseVerdict, Block, Key, StoreError};

/// Keeps attempts and blocks where every node that shares them can reach them.
///
/// # Contract
/// Each line is a law of `limiter-testkit`; a store adopts them all with one macro. [`abuse`](crate::abuse) has the math.
/// - One call is one atomic step: of racing attempts, exactly those before the threshold MUST be allowed.
/// - The attempt that reaches a tier's threshold inside its window starts that tier's block; attempts in one microsecond
///   all count.
/// - A block MUST hold for its whole time, whatever the counts do meanwhile. Its end is stored, and so is its scope.
/// - Under one key and policy at most as many attempts are kept as the largest threshold.
/// - Expiry only frees memory: a state that outlives its time to live MUST NOT change an answer. Nothing of an idle key
///   stays behind.
/// - Time comes from one clock that all callers share. When it steps back, it counts as standing still.
/// - Policies of other names and other keys MUST NOT share state. A policy with other numbers under the same name keeps
///   attempts and blocks.
/// - A call MUST answer or fail before its deadline, whatever the store does; [`DeadlineRepository`](crate::DeadlineRepository)
///   sees to it for a store whose client may hang. A call that may have run MUST NOT be tried again by the store.
///
/// No law can look at what a store writes, but this belongs to the contract, too: a store that is shared MUST write at most 4 KB
/// for a call, names included, whatever the thresholds are and however hard a key is hammered.
///
/// # Cancel safety
/// A dropped call may still take effect, once. It never takes effect twice, and never leaves a half-made state.
#[cfg_attr(any(test, feature = "mock"), mockall::automock)]
#[async_trait]
pub trait AbuseRepository: Send + Sync {
    /// Counts an attempt of `key`, and says whether it is turned away.
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no verdict; it says whether the attempt may have been counted.
    ///
    /// # Cancel safety
    /// A dropped call may still have counted the attempt, once, and started the block that it earns.
    async fn record(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError>;

    /// Says which block is in force and what the counts are, and changes nothing.
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no verdict.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    async fn status(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError>;

    /// Forgets the attempts of `key`. A block in force stays.
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
