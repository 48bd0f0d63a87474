//! The math of the core, bare, obeys every law of stores of attempts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use limiter_core::abuse::{self, AbuseState};
use limiter_core::{AbusePolicy, AbuseRepository, AbuseVerdict, Block, Clock, Key, StoreError};
use limiter_testkit::ManualClock;
use limiter_testkit::abuse::AbuseStoreUnderTest;

limiter_testkit::abuse_laws!(MathStore::default(), cases = 512);

type States = HashMap<(String, Key), AbuseState>;

/// States in a map, and nothing else around the math.
#[derive(Clone, Default)]
struct MathStore {
    states: Arc<Mutex<States>>,
    clock: ManualClock,
}

impl MathStore {
    fn states(&self) -> MutexGuard<'_, States> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run<R>(
        &self,
        key: &Key,
        policy: &AbusePolicy,
        step: impl FnOnce(&mut Option<AbuseState>) -> R,
    ) -> R {
        let mut states = self.states();
        let name = name(key, policy);
        let mut state = states.remove(&name);
        let answer = step(&mut state);
        states.extend(state.map(|state| (name, state)));
        answer
    }
}

fn name(key: &Key, policy: &AbusePolicy) -> (String, Key) {
    (policy.name().as_str().to_ascii_lowercase(), key.clone())
}

#[async_trait]
impl AbuseRepository for MathStore {
    async fn record(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        let now = self.clock.now();
        Ok(self.run(key, policy, |state| abuse::record(policy, state, now)))
    }

    async fn status(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        let now = self.clock.now();
        Ok(self.run(key, policy, |state| {
            abuse::status(policy, state.as_ref(), now)
        }))
    }

    async fn forgive(&self, key: &Key, policy: &AbusePolicy) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.run(key, policy, |state| abuse::forgive(policy, state, now));
        Ok(())
    }

    async fn unblock(&self, key: &Key, policy: &AbusePolicy) -> Result<Option<Block>, StoreError> {
        let now = self.clock.now();
        Ok(self.run(key, policy, |state| abuse::unblock(state, now)))
    }
}

impl AbuseStoreUnderTest for MathStore {
    fn store(&self) -> Arc<dyn AbuseRepository> {
        Arc::new(self.clone())
    }

    fn clock(&self) -> ManualClock {
        self.clock.clone()
    }

    async fn tracked_keys(&self) -> usize {
        self.states().len()
    }

    async fn forget_idle(&self) {
        let then = self.clock.now().saturating_sub(Duration::from_secs(1));
        self.states()
            .retain(|_, state| state.expires_at_us() > then.as_micros());
    }

    async fn bytes_of(&self, key: &Key, policy: &AbusePolicy) -> Option<usize> {
        self.states().get(&name(key, policy)).map(AbuseState::bytes)
    }

    async fn immortal_keys(&self) -> usize {
        self.states()
            .values()
            .filter(|state| state.expires_at_us() >= 1 << 53)
            .count()
    }
}
