//! A store that falls silent and answers again under load: calls come every 20 ms, fail after 50 ms of silence, and are answered after
//! one.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use limiter_core::{
    BreakerState, Charge, CircuitBreaker, Clock, Cost, Key, Plan, RateLimiterRepository, Refund,
    StoreError, Verdict,
};
use limiter_testkit::{ManualClock, SeededRandom};
use proptest::prelude::*;

use crate::{Answer, Call, EVERY, SECOND, admitted, call, poll};

const STEP: Duration = Duration::from_millis(5);
const ANSWER: Duration = Duration::from_millis(1);
const DEADLINE: Duration = Duration::from_millis(50);

/// A store behind a deadline. While it is silent, it keeps what it is asked to itself.
struct Store {
    clock: ManualClock,
    silent: AtomicBool,
    running: AtomicU32,
}

/// One call at the store.
struct Running<'a>(&'a AtomicU32);

impl<'a> Running<'a> {
    fn begin(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl RateLimiterRepository for Store {
    async fn try_acquire(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        let (began, _running) = (self.clock.now(), Running::begin(&self.running));
        poll_fn(|_| match self.clock.now().since(began) {
            ran if ran >= DEADLINE => Poll::Ready(Err(StoreError::unavailable(
                Charge::Possible,
                "no answer in 50 ms",
            ))),
            ran if ran >= ANSWER && !self.silent.load(Ordering::Relaxed) => {
                Poll::Ready(Ok(admitted()))
            }
            _ => Poll::Pending,
        })
        .await
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        self.try_acquire(key, plans, cost).await
    }

    async fn refund(
        &self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
    ) -> Result<Verdict, StoreError> {
        self.try_acquire(key, plans, refund.units).await
    }

    async fn reset(&self, _: &Key, _: &[Plan]) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A breaker with its defaults around a store, and the calls that are under way.
struct Load {
    clock: ManualClock,
    store: Arc<Store>,
    breaker: Arc<CircuitBreaker<Store>>,
    under_way: Vec<Call>,
    ended: Vec<Answer>,
}

impl Load {
    fn new(seed: u64) -> Self {
        let clock = ManualClock::new();
        let store = Arc::new(Store {
            clock: clock.clone(),
            silent: AtomicBool::new(false),
            running: AtomicU32::new(0),
        });
        let random = Arc::new(SeededRandom::new(seed));
        let breaker = CircuitBreaker::new(store.clone(), Arc::new(clock.clone()), random);
        Self {
            clock,
            store,
            breaker: Arc::new(breaker),
            under_way: Vec::new(),
            ended: Vec::new(),
        }
    }

    fn silence(&self, silent: bool) {
        self.store.silent.store(silent, Ordering::Relaxed);
    }

    fn state(&self) -> BreakerState {
        self.breaker.state()
    }

    fn running(&self) -> u32 {
        self.store.running.load(Ordering::Relaxed)
    }

    fn begin(&mut self) {
        let mut call = call(&self.breaker);
        match poll(&mut call) {
            Poll::Ready(answer) => self.ended.push(answer),
            Poll::Pending => self.under_way.push(call),
        }
    }

    fn step(&mut self) {
        self.clock.advance(STEP);
        let ended = &mut self.ended;
        self.under_way.retain_mut(|call| match poll(call) {
            Poll::Ready(answer) => {
                ended.push(answer);
                false
            }
            Poll::Pending => true,
        });
    }

    /// Begins so many calls at a time, 50 times a second, for `time` or until `is_over` says so of what ended in a step. Returns how
    /// long that took.
    fn run(
        &mut self,
        calls: u32,
        time: Duration,
        mut is_over: impl FnMut(&Self, &[Answer]) -> bool,
    ) -> Duration {
        let began = self.clock.now();
        loop {
            for _ in 0..calls {
                self.begin();
            }
            for _ in 0..EVERY.as_micros() / STEP.as_micros() {
                self.step();
                let (ended, took) = (
                    std::mem::take(&mut self.ended),
                    self.clock.now().since(began),
                );
                if is_over(self, &ended) || took >= time {
                    return took;
                }
            }
        }
    }

    fn run_for(&mut self, calls: u32, time: Duration) {
        let _ = self.run(calls, time, |_, _| false);
    }

    /// Falls silent, and waits for the breaker to open.
    fn opens(&mut self) -> Duration {
        self.silence(true);
        let is_open = |load: &Self, _: &[Answer]| load.state() == BreakerState::Open;
        self.run(1, 60 * SECOND, is_open)
    }

    /// Speaks again, and waits for the breaker to close.
    fn closes(&mut self) -> Duration {
        self.silence(false);
        let is_closed = |load: &Self, _: &[Answer]| load.state() == BreakerState::Closed;
        self.run(1, 60 * SECOND, is_closed)
    }
}

/// What was before: so many calls at a time, for so long, and then nothing for so long.
const BEFORE: [(u32, Duration, Duration); 5] = [
    (0, Duration::ZERO, Duration::ZERO),
    (1, Duration::from_secs(10), Duration::ZERO),
    (100, Duration::from_secs(10), Duration::ZERO),
    (100, Duration::from_secs(10), Duration::from_millis(900)),
    (1, Duration::from_secs(60), Duration::from_secs(3600)),
];

#[test]
fn silence_opens_it_within_half_a_second_whatever_was_before() {
    for (calls, time, idle) in BEFORE {
        let mut load = Load::new(1);
        load.run_for(calls, time);
        load.clock.advance(idle);
        let took = load.opens();
        assert!(
            took <= SECOND / 2,
            "{calls} calls at a time, {idle:?}: {took:?}"
        );
    }
}

/// One lost connection fails all calls that were on it, at one moment: the store is left alone only if that goes on.
#[test]
fn failures_at_one_moment_do_not_open_it() {
    let mut load = Load::new(1);
    load.run_for(100, 10 * SECOND);
    load.silence(true);
    for _ in 0..1000 {
        load.begin();
    }
    load.run_for(0, DEADLINE);
    load.silence(false);
    load.run_for(100, SECOND);
    assert_eq!(load.state(), BreakerState::Closed);
}

/// A cluster of which one node of three is silent.
#[test]
fn failures_between_answers_do_not_open_it() {
    let mut load = Load::new(1);
    load.run_for(1, 10 * SECOND);
    for nth in 0..3000 {
        load.silence(nth % 3 == 0);
        load.begin();
        for _ in 0..11 {
            load.step();
        }
    }
    assert_eq!(load.state(), BreakerState::Closed);
}

#[test]
fn store_that_is_back_decides_again_within_a_second_however_long_it_was_away() {
    let away = [SECOND / 2, 4 * SECOND, 60 * SECOND, 3600 * SECOND];
    for (nth, away) in away.into_iter().enumerate() {
        let mut load = Load::new(nth as u64);
        load.run_for(10, 10 * SECOND);
        let opened = load.opens();
        // Whoever began before it opened has given up by then.
        load.run_for(1, DEADLINE);
        load.run(1, away - opened.min(away), |load, _| {
            assert!(load.running() <= 1, "one probe at a time");
            false
        });
        let took = load.closes();
        assert!(took <= SECOND, "after {away:?} it took {took:?}");
        // Probes that found the store silent have ended by their deadline.
        load.run_for(1, DEADLINE);
        load.run(1, 60 * SECOND, |load, ended| {
            assert_eq!(load.state(), BreakerState::Closed);
            assert!(ended.iter().all(Result::is_ok));
            false
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn prop_silence_opens_it_and_an_answer_closes_it_in_time(
        seed: u64, before in 0u32..200, at_a_time in 0u32..50, away_ms in 0u64..20_000,
    ) {
        let mut load = Load::new(seed);
        load.run_for(at_a_time, EVERY * before);
        prop_assert!(load.opens() <= SECOND / 2);
        load.run_for(1, Duration::from_millis(away_ms));
        prop_assert!(load.closes() <= SECOND);
    }
}
