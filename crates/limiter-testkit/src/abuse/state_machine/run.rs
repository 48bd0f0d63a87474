//! [`replay`]: one history, on a store of attempts and on the model side by side.

use std::fmt::Debug;
use std::time::Duration;

use limiter_core::{AbusePolicy, AbuseVerdict, Clock, Key, Timestamp};

use super::super::{AbuseModel, AbuseStoreUnderTest};
use super::{Call, History, Step, Wait};
use crate::ManualClock;
use crate::state_machine::Mismatch;

/// The furthest that a clock steps back behind the latest time it showed.
const STEP_BACK_MAX: Duration = Duration::from_secs(1);

/// Lets `history` happen to a fresh store, and compares every answer with the model's.
///
/// # Errors
/// [`Mismatch`] at the first answer that differs.
pub async fn replay(sut: &impl AbuseStoreUnderTest, history: &History) -> Result<(), Mismatch> {
    let mut run = Run {
        sut,
        clock: sut.clock(),
        latest: sut.clock().now(),
        model: AbuseModel::default(),
        policies: &history.policies,
        last_policy: 0,
        last: None,
    };
    for (nth, step) in history.steps.iter().enumerate() {
        run.step(step)
            .await
            .map_err(|text| Mismatch { step: nth, text })?;
    }
    Ok(())
}

struct Run<'a, S> {
    sut: &'a S,
    clock: ManualClock,
    latest: Timestamp,
    model: AbuseModel,
    policies: &'a [AbusePolicy],
    last_policy: usize,
    last: Option<AbuseVerdict>,
}

impl<S: AbuseStoreUnderTest> Run<'_, S> {
    async fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Call { call, key, policy } => {
                let key = Key::new([b'k', *key]).map_err(|error| error.to_string())?;
                self.last_policy = policy % self.policies.len();
                self.call(*call, &key).await?;
            }
            Step::Wait(wait) => {
                self.clock.advance(self.length(*wait));
                self.latest = self.latest.max(self.clock.now());
            }
            Step::StepBack(by) => {
                let earliest = self.latest.saturating_sub(STEP_BACK_MAX);
                let back = self.clock.now().saturating_sub(*by);
                self.clock.set(back.max(earliest));
            }
            Step::ForgetIdle => self.sut.forget_idle().await,
        }
        Ok(())
    }

    async fn call(&mut self, call: Call, key: &Key) -> Result<(), String> {
        let policies = self.policies;
        let policy = policies.get(self.last_policy).ok_or("there is no policy")?;
        let (store, now) = (self.sut.store(), self.clock.now());
        match call {
            Call::Record(times) => {
                for _ in 0..times {
                    let said = store.record(key, policy).await;
                    let expected = self.model.record(key, policy, now);
                    self.last = Some(same(said, expected)?);
                }
            }
            Call::Status => {
                let said = store.status(key, policy).await;
                self.last = Some(same(said, self.model.status(key, policy, now))?);
            }
            Call::Forgive => {
                self.model.forgive(key, policy, now);
                let done = store.forgive(key, policy).await;
                done.map_err(|error| format!("forgive failed: {error:?}"))?;
            }
            Call::Unblock => {
                let said = store.unblock(key, policy).await;
                same(said, self.model.unblock(key, policy, now))?;
            }
        }
        Ok(())
    }

    fn length(&self, wait: Wait) -> Duration {
        let policy = self.policies.get(self.last_policy);
        match wait {
            Wait::For(length) => length,
            Wait::Block(off_by) => {
                let block = self.last.as_ref().and_then(|last| last.block.as_ref());
                off(
                    block.map_or(Duration::ZERO, |block| block.retry_after),
                    off_by,
                )
            }
            Wait::Window { tier, off_by } => {
                let tiers = policy.map_or(&[][..], AbusePolicy::tiers);
                let tier = tiers.get(tier % tiers.len().max(1));
                off(tier.map_or(Duration::ZERO, |tier| tier.window()), off_by)
            }
            Wait::Memory { tenths, off_by } => {
                let escalation = policy.and_then(AbusePolicy::escalation);
                let memory = escalation.map_or(Duration::ZERO, |escalation| escalation.memory());
                let micros = u64::try_from(memory.as_micros()).unwrap_or(0);
                off(
                    Duration::from_micros(micros * u64::from(tenths) / 10),
                    off_by,
                )
            }
        }
    }
}

fn off(length: Duration, by_us: i8) -> Duration {
    let by = Duration::from_micros(by_us.unsigned_abs().into());
    if by_us < 0 {
        length.saturating_sub(by)
    } else {
        length + by
    }
}

fn same<T: Debug + PartialEq>(
    said: Result<T, limiter_core::StoreError>,
    expected: T,
) -> Result<T, String> {
    match said {
        Ok(said) if said == expected => Ok(said),
        other => Err(format!(
            "\n  the store says {other:?}\n  the model says {expected:?}"
        )),
    }
}
