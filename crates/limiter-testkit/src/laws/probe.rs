//! [`Probe`]: short words for what laws do to a store.

use std::sync::Arc;
use std::time::Duration;

use limiter_core::{
    Cost, InvalidRequest, Key, Plan, PlanVerdict, RateLimiterRepository, Refund, StoreError,
    Verdict,
};

use crate::{ManualClock, ManualRandom, StoreUnderTest};

/// One store, its clock and its chance; every call has to succeed.
pub(super) struct Probe {
    pub(super) store: Arc<dyn RateLimiterRepository>,
    pub(super) clock: ManualClock,
    pub(super) random: ManualRandom,
}

impl Probe {
    pub(super) fn of(sut: &impl StoreUnderTest) -> Self {
        Self {
            store: sut.store(),
            clock: sut.clock(),
            random: sut.random(),
        }
    }

    pub(super) async fn acquire(&self, key: &Key, plans: &[Plan], units: u32) -> Verdict {
        let verdict = self.store.try_acquire(key, plans, cost(units)).await;
        verdict.expect("try_acquire gives a verdict")
    }

    /// Spends what has to be free; returns what can be given back.
    #[track_caller]
    pub(super) fn spend<'a>(
        &'a self,
        key: &'a Key,
        plans: &'a [Plan],
        units: u32,
    ) -> impl Future<Output = Spent> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let verdict = self.acquire(key, plans, units).await;
            assert!(
                verdict.admitted,
                "{units} units are free at {caller}: {verdict:?}"
            );
            Spent(Refund::of(&verdict, cost(units)))
        }
    }

    pub(super) async fn peek(&self, key: &Key, plans: &[Plan], units: u32) -> Verdict {
        let verdict = self.store.peek(key, plans, cost(units)).await;
        verdict.expect("peek gives a verdict")
    }

    /// Gives `units` of what was spent back.
    pub(super) async fn refund(
        &self,
        key: &Key,
        plans: &[Plan],
        spent: &mut Spent,
        units: u32,
    ) -> Verdict {
        let verdict = self.store.refund(key, plans, &spent.part(units)).await;
        verdict.expect("refund gives a verdict")
    }

    pub(super) async fn reset(&self, key: &Key, plans: &[Plan]) {
        let done = self.store.reset(key, plans).await;
        done.expect("reset is confirmed");
    }

    /// Returns the units free under one plan.
    pub(super) async fn free(&self, key: &Key, plan: &Plan) -> u32 {
        only(&self.peek(key, std::slice::from_ref(plan), 1).await).remaining
    }

    /// Spends one unit at a time until a request is denied; returns how many were admitted, at most `most`.
    pub(super) async fn drain(&self, key: &Key, plans: &[Plan], most: u32) -> u32 {
        for admitted in 0..most {
            if !self.acquire(key, plans, 1).await.admitted {
                return admitted;
            }
        }
        most
    }

    pub(super) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

/// What was spent at once, and how much of it was given back.
#[derive(Clone, Debug)]
pub(super) struct Spent(Refund);

impl Spent {
    /// Returns the refund of `units` more of it.
    pub(super) fn part(&mut self, units: u32) -> Refund {
        let part = self.0.clone().part(self.0.given_back, cost(units));
        self.0.given_back += units;
        part
    }
}

pub(super) const MICROSECOND: Duration = Duration::from_micros(1);

pub(super) fn key(text: &str) -> Key {
    Key::new(text).expect("laws use good keys")
}

/// Returns a plan from its text form, such as `10/s`.
pub(super) fn plan(name: &str, limit: &str) -> Plan {
    Plan::new(name, limit).expect("laws use good plans")
}

pub(super) fn cost(units: u32) -> Cost {
    Cost::new(units).expect("laws use good costs")
}

/// Returns one plan of each algorithm, all of `units` per minute, named after their algorithm.
///
/// The suppressing window has no room between its limits, so that nothing is left to chance.
pub(super) fn each_algorithm(units: u32) -> [Plan; 4] {
    [
        plan("bucket", &format!("{units}/min")),
        plan("sliding", &format!("sliding {units}/min")),
        plan(
            "suppressing",
            &format!("suppressing {units}/min hard {units}"),
        ),
        plan("fixed", &format!("fixed {units}/min")),
    ]
}

/// Returns those of [`each_algorithm`] that leave no trace of a denied request.
pub(super) fn each_unobserving(units: u32) -> [Plan; 3] {
    let [bucket, sliding, _, fixed] = each_algorithm(units);
    [bucket, sliding, fixed]
}

/// Returns what the plan of a chain of one said.
pub(super) fn only(verdict: &Verdict) -> &PlanVerdict {
    assert_eq!(verdict.plans.len(), 1, "one plan has one verdict");
    &verdict.plans[0]
}

/// Returns why a call was refused.
pub(super) fn refusal<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> InvalidRequest {
    match answer {
        Err(StoreError::Request(reason)) => reason,
        other => panic!("a bad call is refused as StoreError::Request, not {other:?}"),
    }
}
