//! The store of attempts and blocks: [`FredStore`] as the abuse limiter sees it.

use async_trait::async_trait;
use limiter_core::{AbusePolicy, AbuseRepository, AbuseVerdict, Block, Key, StoreError};
use limiter_lua::AbuseCall;

use crate::store::FredStore;

/// # Cancel safety
/// A dropped call may still take effect, once: what was sent is not called back.
#[async_trait]
impl AbuseRepository for FredStore {
    async fn record(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        self.0
            .attempt(AbuseCall::record(self.layout(), key, policy))
            .await
    }

    async fn status(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        self.0
            .attempt(AbuseCall::status(self.layout(), key, policy))
            .await
    }

    async fn forgive(&self, key: &Key, policy: &AbusePolicy) -> Result<(), StoreError> {
        let forgiven = self
            .0
            .attempt(AbuseCall::forgive(self.layout(), key, policy));
        forgiven.await.map(drop)
    }

    async fn unblock(&self, key: &Key, policy: &AbusePolicy) -> Result<Option<Block>, StoreError> {
        let lifted = self
            .0
            .attempt(AbuseCall::unblock(self.layout(), key, policy));
        Ok(lifted.await?.block)
    }
}
