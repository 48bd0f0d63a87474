//! [`AbuseModelStore`]: the model behind the port.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use limiter_core::{AbusePolicy, AbuseRepository, AbuseVerdict, Block, Clock, Key, StoreError};

use super::{AbuseModel, AbuseStoreUnderTest};
use crate::ManualClock;

/// A store of attempts that is right and slow: the [`AbuseModel`] behind a lock. Obeys every law but that of bounded memory.
///
/// Takes the place of a real store in tests of what stands above one. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct AbuseModelStore {
    model: Arc<Mutex<AbuseModel>>,
    clock: ManualClock,
}

impl AbuseModelStore {
    /// Makes an empty store with a clock of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn model(&self) -> MutexGuard<'_, AbuseModel> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl AbuseRepository for AbuseModelStore {
    async fn record(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        Ok(self.model().record(key, policy, self.clock.now()))
    }

    async fn status(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        Ok(self.model().status(key, policy, self.clock.now()))
    }

    async fn forgive(&self, key: &Key, policy: &AbusePolicy) -> Result<(), StoreError> {
        self.model().forgive(key, policy, self.clock.now());
        Ok(())
    }

    async fn unblock(&self, key: &Key, policy: &AbusePolicy) -> Result<Option<Block>, StoreError> {
        Ok(self.model().unblock(key, policy, self.clock.now()))
    }
}

impl AbuseStoreUnderTest for AbuseModelStore {
    fn store(&self) -> Arc<dyn AbuseRepository> {
        Arc::new(self.clone())
    }

    fn clock(&self) -> ManualClock {
        self.clock.clone()
    }

    async fn tracked_keys(&self) -> usize {
        self.model().tracked_keys()
    }

    async fn forget_idle(&self) {
        self.model().forget_outlived(self.clock.now());
    }

    async fn bytes_of(&self, _: &Key, _: &AbusePolicy) -> Option<usize> {
        None
    }

    async fn immortal_keys(&self) -> usize {
        0
    }
}
