//! A store on the core's math: right as it stands, or with one deliberate fault.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what a test is made of may panic"
)]
#![allow(dead_code, reason = "not every test has every fault")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use limiter_core::math::{self, Draw, State};
use limiter_core::{
    Clock, Cost, Key, Limit, Plan, PlanName, RandomSource, RateLimiterRepository, Refund,
    StoreError, Timestamp, TokenBucket, Verdict, check_refund, check_request,
};
use limiter_testkit::{ManualClock, ManualRandom, StoreUnderTest};

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// A bucket holds one token more.
    OneTokenMore,
    /// A denied request spends what is left.
    ChargesOnDenial,
    /// The wait is one microsecond too long.
    WaitTooLong,
    /// The wait is one microsecond too short.
    WaitTooShort,
    /// The state is read, then decided on, then written, each for itself.
    ChecksThenActs,
    /// Refill is floored to whole tokens, and the time moves on all the same.
    FloorsRefill,
    /// Keys are told apart by what is printable in them.
    MixesKeysUp,
    /// Each plan of a chain is decided for itself.
    ChargesPartOfAChain,
    /// Nothing is ever freed.
    NeverForgets,
    /// Everything is freed as soon as there is a chance.
    ForgetsAll,
    /// A plan with other numbers is a new plan.
    ForgetsOnChange,
    /// A clock that steps back takes the state with it.
    FollowsTheClockBack,
    /// Plans answer in the order of their names.
    SortsAnswers,
    /// A request that is refused for its cost spends what there is.
    ClampsCost,
    /// A refund gives back all that is left of the charge, whatever it says.
    RefundsWithoutBound,
    /// A refund takes no account of earlier ones of the same charge.
    ForgetsEarlierRefunds,
    /// A refund gives back what has left or was refilled since.
    RefundsWhatCameBack,
    /// A refund reaches plans that were not charged.
    RefundsTheUncharged,
    /// A shadow plan denies.
    EnforcesShadows,
    /// A suppressing window does not see what it denied.
    IgnoresDenied,
    /// A plan's name is another in other letters.
    MindsCase,
}

type States = HashMap<(Vec<u8>, String), State>;
type Floored = HashMap<Vec<u8>, (u64, Timestamp)>;

#[derive(Clone)]
pub(crate) struct MathStore {
    fault: Fault,
    clock: ManualClock,
    random: ManualRandom,
    states: Arc<Mutex<States>>,
    /// Makes one call one step.
    step: Arc<Mutex<()>>,
    /// Whole tokens spent, and since when: the state of the store that floors.
    floored: Arc<Mutex<Floored>>,
}

impl MathStore {
    pub(crate) fn with(fault: Fault) -> Self {
        Self {
            fault,
            clock: ManualClock::new(),
            random: ManualRandom::new(),
            states: Arc::default(),
            step: Arc::default(),
            floored: Arc::default(),
        }
    }

    fn place(&self, key: &Key, plan: &Plan) -> (Vec<u8>, String) {
        let mut bytes = key.as_bytes().to_vec();
        if self.fault == Fault::MixesKeysUp {
            bytes.retain(u8::is_ascii_graphic);
        }
        let name = match self.fault {
            Fault::MindsCase => plan.name().to_string(),
            Fault::ForgetsOnChange => format!("{plan}"),
            _ => plan.name().as_str().to_ascii_lowercase(),
        };
        (bytes, name)
    }

    fn read(&self, key: &Key, plans: &[Plan]) -> Vec<Option<State>> {
        let states = self.states.lock().unwrap();
        let read = |plan| states.get(&self.place(key, plan)).cloned();
        plans.iter().map(read).collect()
    }

    fn write(&self, key: &Key, plans: &[Plan], new: Vec<Option<State>>) {
        let mut states = self.states.lock().unwrap();
        for (plan, state) in plans.iter().zip(new) {
            match state {
                Some(state) => states.insert(self.place(key, plan), state),
                None => states.remove(&self.place(key, plan)),
            };
        }
    }

    /// Returns the plans as this store takes them.
    fn taken(&self, plans: &[Plan]) -> Vec<Plan> {
        let take = |plan: &Plan| match (self.fault, plan.limit()) {
            (Fault::OneTokenMore, Limit::TokenBucket(rule)) => {
                let rate = rule.stated_rate();
                let period = Duration::from_micros(rate.period_us());
                let more =
                    TokenBucket::new(rate.units(), period).with_capacity(rule.capacity() + 1);
                Plan::new(plan.name(), more).unwrap_or(plan.clone())
            }
            (Fault::EnforcesShadows, limit) => Plan::new(plan.name(), *limit).unwrap(),
            _ => plan.clone(),
        };
        plans.iter().map(take).collect()
    }

    fn spoil(&self, plans: &[Plan], verdict: &mut Verdict) {
        let tick = Duration::from_micros(1);
        match self.fault {
            Fault::WaitTooLong if !verdict.admitted => verdict.retry_after += tick,
            Fault::WaitTooShort if !verdict.admitted => verdict.retry_after -= tick,
            Fault::SortsAnswers => {
                let mut named: Vec<(&PlanName, _)> = plans
                    .iter()
                    .map(Plan::name)
                    .zip(verdict.plans.clone())
                    .collect();
                named.sort_by_key(|(name, _)| *name);
                verdict.plans = named.into_iter().map(|(_, answer)| answer).collect();
            }
            _ => {}
        }
    }

    fn acquire_from(
        &self,
        mut states: Vec<Option<State>>,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Verdict {
        let now = self.clock.now();
        let draw = Draw::from_random(self.random.next_u64());
        if self.fault == Fault::FollowsTheClockBack {
            let ahead = |state: &State| matches!(state, State::TokenBucket(s) if s.seen() > now);
            states
                .iter_mut()
                .for_each(|state| *state = state.take().filter(|s| !ahead(s)));
        }
        let before = states.clone();
        let mut verdict = math::decide(plans, &mut states, now, cost, draw);
        match self.fault {
            Fault::ChargesOnDenial if !verdict.admitted => {
                for ((plan, state), answer) in plans.iter().zip(&mut states).zip(&verdict.plans) {
                    if let Ok(rest) = Cost::new(answer.remaining) {
                        let plan = std::slice::from_ref(plan);
                        let _ = math::decide(plan, std::slice::from_mut(state), now, rest, draw);
                    }
                }
            }
            Fault::ChargesPartOfAChain if !verdict.admitted => {
                for (plan, state) in plans.iter().zip(&mut states) {
                    let plan = std::slice::from_ref(plan);
                    let _ = math::decide(plan, std::slice::from_mut(state), now, cost, draw);
                }
            }
            Fault::IgnoresDenied if !verdict.admitted => states = before,
            Fault::FloorsRefill => {
                if let [plan] = plans
                    && let Some(admits) = self.floored_acquire(key, plan, cost)
                {
                    verdict.admitted = admits;
                }
            }
            _ => {}
        }
        self.write(key, plans, states);
        self.spoil(plans, &mut verdict);
        verdict
    }

    fn floored_acquire(&self, key: &Key, plan: &Plan, cost: Cost) -> Option<bool> {
        let Limit::TokenBucket(rule) = plan.limit() else {
            return None;
        };
        let (now, rate) = (self.clock.now(), rule.rate());
        let mut floored = self.floored.lock().unwrap();
        let (missing, at) = floored.get(key.as_bytes()).copied().unwrap_or((0, now));
        let elapsed = u64::try_from(now.since(at).as_micros()).unwrap();
        let missing = missing.saturating_sub(elapsed * u64::from(rate.units()) / rate.period_us());
        let admits = missing + u64::from(cost.get()) <= u64::from(rule.capacity());
        let missing = if admits {
            missing + u64::from(cost.get())
        } else {
            missing
        };
        floored.insert(key.as_bytes().to_vec(), (missing, now));
        Some(admits)
    }
}

#[async_trait]
impl RateLimiterRepository for MathStore {
    async fn try_acquire(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        let least = plans.iter().map(|plan| plan.limit().max_cost()).min();
        let cost = match (self.fault, least) {
            (Fault::ClampsCost, Some(least)) => cost.min(Cost::new(least).unwrap()),
            _ => cost,
        };
        check_request(plans, Some(cost))?;
        let plans = &self.taken(plans)[..];
        if self.fault == Fault::ChecksThenActs {
            let states = self.read(key, plans);
            limiter_testkit::tokio::task::yield_now().await;
            return Ok(self.acquire_from(states, key, plans, cost));
        }
        let _step = self.step.lock().unwrap();
        Ok(self.acquire_from(self.read(key, plans), key, plans, cost))
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        check_request(plans, Some(cost))?;
        let plans = &self.taken(plans)[..];
        let mut verdict = math::peek(plans, &self.read(key, plans), self.clock.now(), cost);
        self.spoil(plans, &mut verdict);
        Ok(verdict)
    }

    async fn refund(
        &self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
    ) -> Result<Verdict, StoreError> {
        check_refund(plans, refund)?;
        let _step = self.step.lock().unwrap();
        let plans = &self.taken(plans)[..];
        let mut states = self.read(key, plans);
        let now = self.clock.now();
        let mut refund = refund.clone();
        let moments = refund.charged_at.iter_mut();
        match self.fault {
            Fault::RefundsWithoutBound => refund.units = Cost::new(u32::MAX).unwrap(),
            Fault::ForgetsEarlierRefunds => refund.given_back = 0,
            Fault::RefundsWhatCameBack => moments.flatten().for_each(|moment| *moment = now),
            Fault::RefundsTheUncharged => {
                moments.for_each(|moment| *moment = Some(moment.unwrap_or(now)));
            }
            _ => {}
        }
        let mut verdict = math::refund(plans, &mut states, now, &refund);
        self.write(key, plans, states);
        self.spoil(plans, &mut verdict);
        Ok(verdict)
    }

    async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        check_request(plans, None)?;
        self.write(key, plans, vec![None; plans.len()]);
        Ok(())
    }
}

impl StoreUnderTest for MathStore {
    fn store(&self) -> Arc<dyn RateLimiterRepository> {
        Arc::new(self.clone())
    }

    fn clock(&self) -> ManualClock {
        self.clock.clone()
    }

    fn random(&self) -> ManualRandom {
        self.random.clone()
    }

    async fn tracked_keys(&self) -> usize {
        let states = self.states.lock().unwrap();
        let keys: std::collections::HashSet<_> = states.keys().map(|(key, _)| key).collect();
        keys.len()
    }

    async fn forget_idle(&self) {
        let mut states = self.states.lock().unwrap();
        let then = self.clock.now().saturating_sub(Duration::from_secs(1));
        match self.fault {
            Fault::NeverForgets => {}
            Fault::ForgetsAll => states.clear(),
            _ => states.retain(|_, state| state.expires_at_us() > then.as_micros()),
        }
    }
}
