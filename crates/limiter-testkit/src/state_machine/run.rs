//! [`replay`]: one history, on a store and on the model side by side.

use std::fmt::Debug;
use std::time::Duration;

use limiter_core::{
    Clock, Cost, Key, Limit, Plan, Refund, StoreError, Timestamp, Verdict, check_refund,
    check_request,
};
use proptest::test_runner::TestCaseError;

use super::{Call, History, Step, Wait};
use crate::{ManualClock, Model, StoreUnderTest};

/// Says where a store differs from the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The number of the step, from 0.
    pub step: usize,
    /// What the store answered, and what the model.
    pub text: String,
}

impl From<Mismatch> for TestCaseError {
    fn from(mismatch: Mismatch) -> Self {
        Self::fail(format!("step {}: {}", mismatch.step, mismatch.text))
    }
}

/// The furthest that one wait goes.
const WAIT_MAX: Duration = Duration::from_secs(366 * 86_400);
/// The furthest that a clock steps back behind the latest time it showed.
const STEP_BACK_MAX: Duration = Duration::from_secs(1);

/// Lets `history` happen to a fresh store, and compares every answer with the model's.
///
/// # Errors
/// [`Mismatch`] at the first answer that differs.
pub async fn replay(sut: &impl StoreUnderTest, history: &History) -> Result<(), Mismatch> {
    let mut run = Run {
        sut,
        clock: sut.clock(),
        latest: sut.clock().now(),
        model: Model::default(),
        limits: history.limits.clone(),
        last: None,
        charges: Vec::new(),
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
    model: Model,
    limits: Vec<Limit>,
    last: Option<Verdict>,
    charges: Vec<Charge>,
}

/// What was charged, and is not given back yet.
struct Charge {
    key: Key,
    chain: Vec<Plan>,
    refund: Refund,
}

impl<S: StoreUnderTest> Run<'_, S> {
    async fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Call {
                call,
                key,
                chain,
                cost,
                bits,
            } => {
                let key = Key::new([b'k', *key]).map_err(|error| error.to_string())?;
                let chain = self.chain(chain)?;
                self.sut.random().set(*bits);
                if *call == Call::Refund {
                    return self.refund(*cost, *bits).await;
                }
                self.call(*call, &key, &chain, *cost).await?;
            }
            Step::Wait(wait) => {
                self.clock.advance(self.length(*wait).min(WAIT_MAX));
                self.latest = self.latest.max(self.clock.now());
            }
            Step::StepBack(by) => {
                let earliest = self.latest.saturating_sub(STEP_BACK_MAX);
                let back = self.clock.now().saturating_sub(*by);
                self.clock.set(back.max(earliest));
            }
            Step::Change { plan, limit } => {
                let plan = plan % self.limits.len();
                if let Some(place) = self.limits.get_mut(plan) {
                    *place = *limit;
                }
            }
            Step::ForgetIdle => self.sut.forget_idle().await,
        }
        Ok(())
    }

    async fn call(
        &mut self,
        call: Call,
        key: &Key,
        chain: &[Plan],
        cost: u32,
    ) -> Result<(), String> {
        let (store, now) = (self.sut.store(), self.clock.now());
        let draw = self.sut.random().draw();
        let cost = self.cost(chain, cost)?;
        if let Err(refusal) = check_request(chain, (call != Call::Reset).then_some(cost)) {
            let refused = match call {
                Call::Acquire => store.try_acquire(key, chain, cost).await.map(drop),
                Call::Peek => store.peek(key, chain, cost).await.map(drop),
                Call::Reset => store.reset(key, chain).await,
                Call::Refund => Ok(()),
            };
            return match refused {
                Err(StoreError::Request(given)) if given == refusal => Ok(()),
                other => Err(differ(&other, &refusal, chain)),
            };
        }
        let (said, expected) = match call {
            Call::Acquire => (
                store.try_acquire(key, chain, cost).await,
                self.model.try_acquire(key, chain, cost, now, draw),
            ),
            Call::Peek => (
                store.peek(key, chain, cost).await,
                self.model.peek(key, chain, cost, now),
            ),
            Call::Refund => return Ok(()),
            Call::Reset => {
                self.model.reset(key, chain);
                let done = store.reset(key, chain).await;
                return done.map_err(|error| format!("reset failed: {error:?}"));
            }
        };
        match said {
            Ok(said) if said == expected => self.last = Some(said),
            other => return Err(differ(&other, &expected, chain)),
        }
        if let (Call::Acquire, Some(verdict)) = (call, &self.last)
            && verdict.admitted
        {
            self.charges.push(Charge {
                key: key.clone(),
                chain: chain.to_vec(),
                refund: Refund::of(verdict, cost),
            });
        }
        Ok(())
    }

    /// Gives units of an earlier charge back, under the plans as they are now.
    async fn refund(&mut self, units: u32, bits: u64) -> Result<(), String> {
        let count = u64::try_from(self.charges.len()).unwrap_or(u64::MAX);
        let nth = bits.checked_rem(count).unwrap_or(0);
        let nth = usize::try_from(count.saturating_sub(nth + 1)).unwrap_or(0);
        let Some(charge) = self.charges.get_mut(nth) else {
            return Ok(());
        };
        let given_back = charge.refund.given_back;
        let left = charge.refund.charged.get() - given_back;
        let units = match units {
            u32::MAX => units,
            units => units.min(left).max(1),
        };
        let units = Cost::new(units).map_err(|error| error.to_string())?;
        let refund = charge.refund.clone().part(given_back, units);
        let (key, charged_under) = (charge.key.clone(), charge.chain.clone());
        let chain: Vec<Plan> = charged_under.iter().map(|plan| self.as_now(plan)).collect();
        let said = self.sut.store().refund(&key, &chain, &refund).await;
        if let Err(refusal) = check_refund(&chain, &refund) {
            return match said {
                Err(StoreError::Request(given)) if given == refusal => Ok(()),
                other => Err(differ(&other, &refusal, &chain)),
            };
        }
        let expected = self.model.refund(&key, &chain, &refund, self.clock.now());
        match said {
            Ok(said) if said == expected => self.last = Some(said),
            other => return Err(differ(&other, &expected, &chain)),
        }
        if let Some(charge) = self.charges.get_mut(nth) {
            charge.refund.given_back += units.get();
        }
        Ok(())
    }

    /// Returns the plan of that name with the limit that it has now.
    fn as_now(&self, plan: &Plan) -> Plan {
        let is_named = |nth: &usize| plan.name().as_str() == format!("plan-{nth}");
        let nth = (0..self.limits.len()).find(is_named);
        let limit = nth.and_then(|nth| self.limits.get(nth));
        let now = limit.and_then(|limit| Plan::new(plan.name().clone(), *limit).ok());
        match now {
            Some(now) if plan.is_enforced() => now,
            Some(now) => now.in_shadow(),
            None => plan.clone(),
        }
    }

    /// Returns the plans as they are now; a plan that comes twice is left out, but for chains of four.
    fn chain(&self, links: &[(usize, bool)]) -> Result<Vec<Plan>, String> {
        let mut chain: Vec<Plan> = Vec::new();
        for (nth, in_shadow) in links {
            let nth = nth % self.limits.len();
            let limit = self.limits.get(nth).copied();
            let limit = limit.ok_or("there is no such plan")?;
            let plan = Plan::new(format!("plan-{nth}").as_str(), limit);
            let plan = plan.map_err(|error| error.to_string())?;
            let twice = chain.iter().any(|earlier| earlier.name() == plan.name());
            if !twice {
                chain.push(if *in_shadow { plan.in_shadow() } else { plan });
            }
        }
        Ok(chain)
    }

    fn cost(&self, chain: &[Plan], asked: u32) -> Result<Cost, String> {
        let most = chain.iter().map(|plan| plan.limit().max_cost()).min();
        let cost = match asked {
            u32::MAX => asked,
            asked => asked.min(most.unwrap_or(asked)),
        };
        Cost::new(cost).map_err(|error| error.to_string())
    }

    fn length(&self, wait: Wait) -> Duration {
        let last = self.last.as_ref();
        match wait {
            Wait::For(length) => length,
            Wait::Retry(off_by) => {
                last.map_or(Duration::ZERO, |last| off(last.retry_after, off_by))
            }
            Wait::Reset(off_by) => last
                .and_then(|last| last.plans.first())
                .map_or(Duration::ZERO, |plan| off(plan.reset_after, off_by)),
            Wait::Granularity { plan, off_by } => {
                let limit = self.limits.get(plan % self.limits.len());
                off(limit.map_or(Duration::ZERO, granularity), off_by)
            }
            Wait::PartOfWindow { plan, thousandths } => {
                let limit = self.limits.get(plan % self.limits.len());
                let window = limit.map_or(Duration::ZERO, Limit::window);
                Duration::from_micros(
                    u64::try_from(window.as_micros() * u128::from(thousandths) / 1_000)
                        .unwrap_or(0),
                )
            }
        }
    }
}

fn granularity(limit: &Limit) -> Duration {
    Duration::from_micros(match limit {
        Limit::SlidingWindow(rule) => rule.granularity_us(),
        Limit::SuppressingWindow(rule) => rule.soft().granularity_us(),
        _ => 1,
    })
}

fn off(length: Duration, by_us: i8) -> Duration {
    let by = Duration::from_micros(by_us.unsigned_abs().into());
    if by_us < 0 {
        length.saturating_sub(by)
    } else {
        length + by
    }
}

fn differ(said: &impl Debug, expected: &impl Debug, chain: &[Plan]) -> String {
    let chain: Vec<String> = chain.iter().map(ToString::to_string).collect();
    format!(
        "under [{}]\n  the store says {said:?}\n  the model says {expected:?}",
        chain.join(", ")
    )
}
