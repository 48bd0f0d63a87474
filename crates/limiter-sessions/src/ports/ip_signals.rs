//! [`IpSignals`]: the outbound port to what is known of addresses.

use async_trait::async_trait;
use limiter_core::StoreError;

use crate::{IpSignal, VisitorIp};

/// Tells what is known of addresses. [`SessionStore::observe`](crate::SessionStore::observe) feeds it.
///
/// # Contract
/// - Sums and counts are added to, never overwritten: no request is lost to a race.
/// - An address that was quiet for [`IpSignal::RETENTION`] MUST be as new.
/// - What is kept for one address is bounded, however many fingerprints it shows.
#[cfg_attr(any(test, feature = "mock"), mockall::automock)]
#[async_trait]
pub trait IpSignals: Send + Sync {
    /// Reads what is known of `ip`; `None` if it was not seen for [`IpSignal::RETENTION`].
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no answer.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    async fn signal(&self, ip: VisitorIp) -> Result<Option<IpSignal>, StoreError>;
}
