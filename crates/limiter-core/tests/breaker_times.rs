//! How soon a circuit breaker with its defaults opens and closes, by a clock that the test moves: calls come every 20 ms, fail after
//! 50 ms of silence, and are answered after one.

#![allow(
    clippy::unwrap_used,
    reason = "a value that a test makes is good, or the test fails"
)]

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use limiter_core::{
    BreakerMode, BreakerState, Charge, CircuitBreaker, Clock, Cost, InvalidRequest, Key, Plan,
    RateLimiterRepository, Source, StoreError, Verdict,
};
use limiter_testkit::{ManualClock, SeededRandom};
use proptest::prelude::*;

const STEP: Duration = Duration::from_millis(5);
const ANSWER: Duration = Duration::from_millis(1);
const DEADLINE: Duration = Duration::from_millis(50);
/// Fifty calls a second.
const EVERY: Duration = Duration::from_millis(20);
const SECOND: Duration = Duration::from_secs(1);

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

    async fn refund(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        self.try_acquire(key, plans, cost).await
    }

    async fn reset(&self, _: &Key, _: &[Plan]) -> Result<(), StoreError> {
        Ok(())
    }
}

fn admitted() -> Verdict {
    Verdict {
        source: Source::Store,
        admitted: true,
        retry_after: Duration::ZERO,
        plans: [limiter_core::PlanVerdict::default()].into_iter().collect(),
    }
}

type Answer = Result<Verdict, StoreError>;
type Call = Pin<Box<dyn Future<Output = Answer> + Send>>;

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

fn call<R: RateLimiterRepository + 'static>(breaker: &Arc<CircuitBreaker<R>>) -> Call {
    let breaker = Arc::clone(breaker);
    Box::pin(async move {
        let plans = [Plan::new("gold", "10/s").unwrap()];
        let ann = Key::new("ann").unwrap();
        breaker.try_acquire(&ann, &plans, Cost::ONE).await
    })
}

fn poll<F: Future + Unpin>(mut future: F) -> Poll<F::Output> {
    Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()))
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

/// A store that refuses at once, and counts.
#[derive(Default)]
struct Refusing(AtomicU32);

#[async_trait]
impl RateLimiterRepository for Refusing {
    async fn try_acquire(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Err(StoreError::unavailable(
            Charge::Impossible,
            "connection refused",
        ))
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        self.try_acquire(key, plans, cost).await
    }

    async fn refund(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        self.try_acquire(key, plans, cost).await
    }

    async fn reset(&self, _: &Key, _: &[Plan]) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A store whose first call hangs, and which answers all others at once; without a deadline.
#[derive(Default)]
struct HangsOnce {
    hung: AtomicBool,
}

#[async_trait]
impl RateLimiterRepository for HangsOnce {
    async fn try_acquire(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        if !self.hung.swap(true, Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        Ok(admitted())
    }

    async fn peek(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        Err(StoreError::unavailable(Charge::Impossible, "away"))
    }

    async fn refund(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        Err(InvalidRequest::NoPlans.into())
    }

    async fn reset(&self, _: &Key, _: &[Plan]) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A breaker that has opened and is about to let a probe through.
fn about_to_probe(clock: &ManualClock) -> Arc<CircuitBreaker<HangsOnce>> {
    about_to_probe_by(SeededRandom::new(1), clock)
}

fn about_to_probe_by(random: SeededRandom, clock: &ManualClock) -> Arc<CircuitBreaker<HangsOnce>> {
    let store = HangsOnce::default();
    let breaker = CircuitBreaker::new(Arc::new(store), Arc::new(clock.clone()), Arc::new(random));
    let (ann, gold) = (Key::new("ann").unwrap(), Plan::new("gold", "10/s").unwrap());
    for _ in 0..20 {
        let away =
            limiter_testkit::block_on(breaker.peek(&ann, std::slice::from_ref(&gold), Cost::ONE));
        assert!(away.is_err());
    }
    assert_eq!(breaker.state(), BreakerState::Open);
    clock.advance(2 * SECOND);
    Arc::new(breaker)
}

/// The pauses of a store that fails at once are the shortest.
#[test]
fn store_that_is_away_is_asked_at_most_six_times_a_second() {
    for seed in 0..100 {
        let (clock, random) = (ManualClock::new(), SeededRandom::new(seed));
        let store = Arc::new(Refusing::default());
        let breaker = CircuitBreaker::new(store.clone(), Arc::new(clock.clone()), Arc::new(random));
        let breaker = Arc::new(breaker);
        while breaker.state() == BreakerState::Closed {
            assert!(poll(call(&breaker)).is_ready());
        }
        let mut asked = vec![store.0.load(Ordering::Relaxed)];
        for _ in 0..20_000 {
            clock.advance(Duration::from_millis(1));
            assert!(poll(call(&breaker)).is_ready());
            asked.push(store.0.load(Ordering::Relaxed));
        }
        for second in asked.windows(1_001) {
            let within = second.last().unwrap() - second.first().unwrap();
            assert!((3..=6).contains(&within), "{within} in a second");
        }
    }
}

/// The caller of a probe may keep its future and poll it no more, or the store may have no deadline.
#[test]
fn probe_that_never_ends_keeps_the_others_out_for_a_second_at_most() {
    let clock = ManualClock::new();
    let breaker = about_to_probe(&clock);
    let mut parked = call(&breaker);
    assert!(poll(&mut parked).is_pending(), "the probe hangs");
    assert!(poll(call(&breaker)).is_ready(), "one probe at a time");
    clock.advance(SECOND);
    for _ in 0..5 {
        assert!(matches!(poll(call(&breaker)), Poll::Ready(Ok(_))));
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
    drop(parked);
    assert_eq!(
        breaker.state(),
        BreakerState::Closed,
        "it is too late to count"
    );
}

#[test]
fn clock_that_steps_back_during_a_probe_keeps_nobody_out() {
    let clock = ManualClock::new();
    let breaker = about_to_probe(&clock);
    let mut parked = call(&breaker);
    assert!(poll(&mut parked).is_pending(), "the probe hangs");
    clock.step_back(3600 * SECOND);
    assert!(poll(call(&breaker)).is_ready(), "one probe at a time");
    clock.advance(SECOND);
    assert!(matches!(poll(call(&breaker)), Poll::Ready(Ok(_))));
}

/// A store without a deadline, the probe of which is lost: the longest way back.
#[test]
fn store_that_is_back_decides_again_within_a_second_though_its_probe_was_lost() {
    for seed in 0..100 {
        let clock = ManualClock::new();
        let breaker = about_to_probe_by(SeededRandom::new(seed), &clock);
        let mut lost = call(&breaker);
        assert!(poll(&mut lost).is_pending(), "the probe hangs");
        // It is back from now on.
        for _ in 0..SECOND.as_millis() / EVERY.as_millis() {
            clock.advance(EVERY);
            assert!(poll(call(&breaker)).is_ready());
        }
        assert_eq!(breaker.state(), BreakerState::Closed, "{seed}");
    }
}

/// What the store does not even look at says nothing of the store.
#[test]
fn request_that_is_refused_is_no_sign_of_life() {
    let clock = ManualClock::new();
    let breaker = about_to_probe(&clock);
    let (ann, gold) = (Key::new("ann").unwrap(), Plan::new("gold", "10/s").unwrap());
    for _ in 0..5 {
        let refund = breaker.refund(&ann, std::slice::from_ref(&gold), Cost::ONE);
        let refused = limiter_testkit::block_on(refund).unwrap_err();
        assert!(matches!(refused, StoreError::Request(_)));
    }
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
}

/// A store that acts when it is called, and not when its future is polled.
#[derive(Default)]
struct Eager(AtomicU32);

impl RateLimiterRepository for Eager {
    fn try_acquire<'a, 'k, 'p, 'f>(
        &'a self,
        _: &'k Key,
        _: &'p [Plan],
        _: Cost,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'f>>
    where
        Self: 'f,
        'a: 'f,
        'k: 'f,
        'p: 'f,
    {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(admitted()) })
    }

    fn peek<'a, 'k, 'p, 'f>(
        &'a self,
        key: &'k Key,
        plans: &'p [Plan],
        cost: Cost,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'f>>
    where
        Self: 'f,
        'a: 'f,
        'k: 'f,
        'p: 'f,
    {
        self.try_acquire(key, plans, cost)
    }

    fn refund<'a, 'k, 'p, 'f>(
        &'a self,
        key: &'k Key,
        plans: &'p [Plan],
        cost: Cost,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'f>>
    where
        Self: 'f,
        'a: 'f,
        'k: 'f,
        'p: 'f,
    {
        self.try_acquire(key, plans, cost)
    }

    fn reset<'a, 'k, 'p, 'f>(
        &'a self,
        _: &'k Key,
        _: &'p [Plan],
    ) -> Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send + 'f>>
    where
        Self: 'f,
        'a: 'f,
        'k: 'f,
        'p: 'f,
    {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(()) })
    }
}

#[test]
fn store_is_not_called_at_all_while_the_breaker_is_open() {
    let store = Arc::new(Eager::default());
    let (clock, random) = (ManualClock::new(), SeededRandom::new(1));
    let breaker = CircuitBreaker::new(store.clone(), Arc::new(clock), Arc::new(random));
    breaker.set_mode(BreakerMode::ForcedOpen);
    let (ann, gold) = (
        Key::new("ann").unwrap(),
        [Plan::new("gold", "10/s").unwrap()],
    );
    limiter_testkit::block_on(async {
        assert!(breaker.try_acquire(&ann, &gold, Cost::ONE).await.is_err());
        assert!(breaker.peek(&ann, &gold, Cost::ONE).await.is_err());
        assert!(breaker.refund(&ann, &gold, Cost::ONE).await.is_err());
        assert!(breaker.reset(&ann, &gold).await.is_err());
    });
    assert_eq!(store.0.load(Ordering::Relaxed), 0);
}
