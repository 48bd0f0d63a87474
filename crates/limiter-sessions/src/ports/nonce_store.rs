//! [`NonceStore`]: the outbound port to the nonces that were used.

use async_trait::async_trait;
use limiter_core::{Key, StoreError};

use crate::{Nonce, Retention};

/// Whether a nonce was used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a nonce that is not looked at stops no replay"]
pub enum NonceUse {
    /// It was not, and is from now on.
    First,
    /// It was.
    Replay,
}

/// Remembers the nonces that were used, where every node that shares them can reach them.
///
/// # Contract
/// - Of racing callers exactly one MUST be told [`NonceUse::First`], once in the window, on all nodes together.
/// - Scopes MUST NOT share nonces: nobody can use up another one's.
/// - A nonce MUST be remembered for its whole window, at least. The window covers how old a request may be and how far a
///   client's clock may be ahead.
/// - What the store cannot tell is an error, never [`NonceUse::First`].
#[cfg_attr(any(test, feature = "mock"), mockall::automock)]
#[async_trait]
pub trait NonceStore: Send + Sync {
    /// Uses up `nonce` within `scope`, and says whether it was used before.
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no answer: turn the request away. The nonce may be used up then.
    ///
    /// # Cancel safety
    /// A dropped call may still use the nonce up.
    async fn consume(
        &self,
        scope: &Key,
        nonce: &Nonce,
        window: Retention,
    ) -> Result<NonceUse, StoreError>;
}
