//! How full the store is: [`MemorySessionStore`] as dashboards see it.

use async_trait::async_trait;
use limiter_core::StoreError;
use limiter_sessions::{Locator, Session, StoreReport, StoreStats};

use super::MemorySessionStore;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::lock;

#[async_trait]
impl StoreStats for MemorySessionStore {
    async fn stats(&self, keys_max: u32) -> Result<StoreReport, StoreError> {
        let now = self.clock.now();
        let mut budget = usize::try_from(keys_max).unwrap_or(usize::MAX);
        let mut report = StoreReport::default();
        let mut bytes = 0;
        let mut groups = Vec::new();
        for (_, place, _) in lock(&self.sessions).range(.., now).take(budget) {
            report.sessions += 1;
            bytes += size_of::<(Locator, Session)>();
            groups.push(place.group);
        }
        budget -= groups.len();
        groups.dedup();
        report.fingerprints = groups.len() as u64;
        for (_, _, address) in lock(&self.addresses).range(.., now).take(budget) {
            report.addresses += 1;
            bytes += address.bytes();
            budget -= 1;
        }
        report.nonces = lock(&self.nonces).range(.., now).take(budget).count() as u64;
        report.memory_bytes = bytes as u64 + report.nonces * 16;
        report.is_complete = self.kept() <= usize::try_from(keys_max).unwrap_or(usize::MAX);
        report.hits = self.hits.load(Relaxed);
        report.misses = self.misses.load(Relaxed);
        Ok(report)
    }
}
