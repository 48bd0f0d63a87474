//! A store of attempts on the core's math: right as it stands, or with one deliberate fault.
#![allow(dead_code, reason = "not every test has every fault")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use limiter_core::abuse::{self, AbuseState};
use limiter_core::{
    AbusePolicy, AbusePolicyBuilder, AbuseRepository, AbuseVerdict, Block, Clock, Escalation, Key,
    StoreError, Tier, TierRule, Timestamp, WhileBlocked,
};
use limiter_testkit::ManualClock;
use limiter_testkit::abuse::AbuseStoreUnderTest;

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    #[default]
    None,
    /// The Nth attempt passes, and the one after it blocks.
    OneMore,
    /// The state is read, then decided on, then written, each for itself.
    ChecksThenActs,
    /// Attempts in one second count as one.
    WholeSeconds,
    /// A block is looked at only while the count is reached.
    CountsFirst,
    /// A block that is there is never replaced.
    KeepsTheFirstBlock,
    /// The scope is that of the hardest tier whose count is reached.
    ScopeByCounts,
    /// Each attempt while blocked starts the block anew.
    Prolongs,
    /// A success lifts the block.
    ForgivesBlocks,
    /// An unblocked key keeps its attempts.
    KeepsAttempts,
    /// Reading counts.
    CountsReads,
    /// Attempts while blocked count, whatever the policy says.
    NeverIgnores,
    /// Attempts while blocked do not count, whatever the policy says.
    AlwaysIgnores,
    /// A clock that steps back is believed.
    FollowsTheClockBack,
    /// Nothing is ever freed.
    NeverForgets,
    /// Everything is freed as soon as there is a chance.
    ForgetsAll,
    /// Policies share their attempts.
    MixesPoliciesUp,
    /// A policy's name is another in other letters.
    MindsCase,
    /// Relapses are never forgotten.
    NeverDecays,
    /// The wait is one microsecond too short.
    WaitTooShort,
}

type States = HashMap<(String, Key), AbuseState>;

/// States in a map, and nothing but a fault around the math.
#[derive(Clone, Default)]
pub(crate) struct MathStore {
    fault: Fault,
    states: Arc<Mutex<States>>,
    clock: ManualClock,
    /// The latest time that a call was made at.
    latest: Arc<Mutex<Timestamp>>,
}

impl MathStore {
    fn states(&self) -> MutexGuard<'_, States> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn with(fault: Fault) -> Self {
        Self {
            fault,
            ..Self::default()
        }
    }

    fn name(&self, key: &Key, policy: &AbusePolicy) -> (String, Key) {
        let policy = policy.name().as_str();
        let policy = match self.fault {
            Fault::MixesPoliciesUp => String::new(),
            Fault::MindsCase => policy.to_owned(),
            _ => policy.to_ascii_lowercase(),
        };
        (policy, key.clone())
    }

    fn now(&self) -> Timestamp {
        let now = self.clock.now();
        match self.fault {
            Fault::WholeSeconds => {
                now.saturating_sub(Duration::from_micros(now.as_micros() % 1_000_000))
            }
            _ => now,
        }
    }

    fn run<R>(
        &self,
        key: &Key,
        policy: &AbusePolicy,
        step: impl FnOnce(&mut Option<AbuseState>) -> R,
    ) -> R {
        let mut states = self.states();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if self.fault == Fault::FollowsTheClockBack && self.clock.now() < *latest {
            states.clear();
        }
        *latest = self.clock.now();
        let name = self.name(key, policy);
        let mut state = states.remove(&name);
        let answer = step(&mut state);
        states.extend(state.map(|state| (name, state)));
        answer
    }

    /// Counts an attempt, wrongly in the way of the fault.
    fn record_wrongly(
        &self,
        policy: &AbusePolicy,
        state: &mut Option<AbuseState>,
        now: Timestamp,
    ) -> AbuseVerdict {
        let before = abuse::status(policy, state.as_ref(), now);
        match (self.fault, &before.block) {
            (Fault::WholeSeconds, _) if before.counts.first().is_some_and(|count| *count > 0) => {
                return before;
            }
            (Fault::Prolongs, Some(block)) => {
                let full = policy
                    .tiers()
                    .iter()
                    .find(|tier| *tier.name() == block.scope);
                let full = full.map_or(Duration::ZERO, TierRule::block);
                let mut verdict = abuse::record(policy, state, now);
                if let Some(block) = &mut verdict.block {
                    block.retry_after = full;
                }
                return verdict;
            }
            (Fault::KeepsTheFirstBlock, Some(_)) => {
                let mut copy = state.clone();
                let verdict = abuse::record(policy, &mut copy, now);
                return AbuseVerdict {
                    counts: verdict.counts,
                    ..before
                };
            }
            _ => {}
        }
        abuse::record(policy, state, now)
    }

    /// Changes a right answer in the way of the fault.
    fn spoil(&self, policy: &AbusePolicy, mut verdict: AbuseVerdict) -> AbuseVerdict {
        let reached = |(tier, count): &(&TierRule, &u32)| **count >= tier.threshold();
        let hardest = policy.tiers().iter().zip(&verdict.counts).rfind(reached);
        match (self.fault, hardest) {
            (Fault::CountsFirst, None) => verdict.block = None,
            (Fault::ScopeByCounts, Some((tier, _))) => {
                if let Some(block) = &mut verdict.block {
                    block.scope = tier.name().clone();
                }
            }
            (Fault::WaitTooShort, _) => {
                if let Some(block) = &mut verdict.block {
                    block.retry_after -= Duration::from_micros(1);
                }
            }
            _ => {}
        }
        verdict
    }

    /// Changes the policy in the way of the fault.
    fn bend(&self, policy: &AbusePolicy) -> AbusePolicy {
        let more = u32::from(self.fault == Fault::OneMore);
        let tiers = policy.tiers().iter().map(|tier| {
            Tier::new(tier.name().as_str(), tier.threshold() + more, tier.window())
                .blocking_for(tier.block())
        });
        let name = policy.name().as_str();
        let bent = tiers.fold(AbusePolicy::builder(name), AbusePolicyBuilder::tier);
        let bent = bent.while_blocked(match self.fault {
            Fault::NeverIgnores => WhileBlocked::Count,
            Fault::AlwaysIgnores => WhileBlocked::Ignore,
            _ => policy.while_blocked(),
        });
        let bent = match (policy.escalation(), self.fault) {
            (Some(escalation), Fault::NeverDecays) => {
                let forever = Duration::from_secs(366 * 86_400);
                let never = Escalation::doubling(forever, escalation.at_most());
                bent.escalating(never.by(escalation.factor()))
            }
            (Some(escalation), _) => bent.escalating(*escalation),
            (None, _) => bent,
        };
        bent.build().unwrap_or_else(|_| policy.clone())
    }
}

#[async_trait]
impl AbuseRepository for MathStore {
    async fn record(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        let (policy, now) = (&self.bend(policy), self.now());
        if self.fault == Fault::ChecksThenActs {
            let mut state = self.run(key, policy, |state| state.clone());
            let verdict = abuse::record(policy, &mut state, now);
            tokio::task::yield_now().await;
            self.run(key, policy, |place| *place = state);
            return Ok(verdict);
        }
        let verdict = self.run(key, policy, |state| self.record_wrongly(policy, state, now));
        Ok(self.spoil(policy, verdict))
    }

    async fn status(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        if self.fault == Fault::CountsReads {
            return self.record(key, policy).await;
        }
        let (policy, now) = (&self.bend(policy), self.now());
        let look = |state: &mut Option<AbuseState>| abuse::status(policy, state.as_ref(), now);
        Ok(self.spoil(policy, self.run(key, policy, look)))
    }

    async fn forgive(&self, key: &Key, policy: &AbusePolicy) -> Result<(), StoreError> {
        let now = self.now();
        self.run(key, policy, |state| match self.fault {
            Fault::ForgivesBlocks => *state = None,
            _ => abuse::forgive(policy, state, now),
        });
        Ok(())
    }

    async fn unblock(&self, key: &Key, policy: &AbusePolicy) -> Result<Option<Block>, StoreError> {
        let now = self.now();
        Ok(self.run(key, policy, |state| {
            let attempts = abuse::status(policy, state.as_ref(), now).counts;
            let lifted = abuse::unblock(state, now);
            if self.fault == Fault::KeepsAttempts && lifted.is_some() {
                for _ in 1..attempts.iter().copied().max().unwrap_or(0) {
                    let _ = abuse::record(policy, state, now);
                }
            }
            lifted
        }))
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
        self.states().retain(|_, state| match self.fault {
            Fault::NeverForgets => true,
            Fault::ForgetsAll => false,
            _ => state.expires_at_us() > then.as_micros(),
        });
    }

    async fn bytes_of(&self, key: &Key, policy: &AbusePolicy) -> Option<usize> {
        let name = self.name(key, policy);
        self.states().get(&name).map(AbuseState::bytes)
    }

    async fn immortal_keys(&self) -> usize {
        let immortal = |state: &&AbuseState| state.expires_at_us() >= 1 << 53;
        self.states().values().filter(immortal).count()
    }
}
