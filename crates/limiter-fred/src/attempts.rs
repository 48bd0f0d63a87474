//! The store of attempts and blocks: [`FredStore`] as the abuse limiter sees it.

use async_trait::async_trait;
use limiter_core::{AbusePolicy, AbuseRepository, AbuseVerdict, Block, Key, StoreError};
use limiter_lua::{AbuseCall, BadReply};

use crate::job::Job;
use crate::store::FredStore;

impl FredStore {
    /// Runs a call about attempts before its deadline.
    async fn run_attempt(&self, call: AbuseCall<'_>) -> Result<AbuseVerdict, StoreError> {
        let call = match &self.clock {
            Some(clock) => call.at(clock.now()),
            None => call,
        };
        let job = Job::Attempt(call);
        let reply = self.ask(&job).await?;
        let (Job::Attempt(call), Some(reply)) = (job, reply.as_bytes()) else {
            return Err(BadReply::Malformed { len: 0 }.into());
        };
        Ok(call.answer(reply)?)
    }
}

/// # Cancel safety
/// A dropped call may still take effect, once: what was sent is not called back.
#[async_trait]
impl AbuseRepository for FredStore {
    async fn record(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        self.run_attempt(AbuseCall::record(&self.layout, key, policy))
            .await
    }

    async fn status(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        self.run_attempt(AbuseCall::status(&self.layout, key, policy))
            .await
    }

    async fn forgive(&self, key: &Key, policy: &AbusePolicy) -> Result<(), StoreError> {
        let forgiven = self.run_attempt(AbuseCall::forgive(&self.layout, key, policy));
        forgiven.await.map(drop)
    }

    async fn unblock(&self, key: &Key, policy: &AbusePolicy) -> Result<Option<Block>, StoreError> {
        let lifted = self.run_attempt(AbuseCall::unblock(&self.layout, key, policy));
        Ok(lifted.await?.block)
    }
}
