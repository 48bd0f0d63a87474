//! What reaches a store while a breaker is open or half-open.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use limiter_core::{
    BreakerMode, BreakerState, Charge, CircuitBreaker, Cost, InvalidRequest, Key, Plan,
    RateLimiterRepository, Refund, StoreError, Verdict,
};
use limiter_testkit::{ManualClock, SeededRandom};

use crate::{Answer, EVERY, SECOND, admitted, call, poll};

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

    async fn refund(&self, _: &Key, _: &[Plan], _: &Refund) -> Result<Verdict, StoreError> {
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

fn charge() -> Refund {
    Refund::of(&admitted(), Cost::ONE)
}

/// What the store does not even look at says nothing of the store.
#[test]
fn request_that_is_refused_is_no_sign_of_life() {
    let clock = ManualClock::new();
    let breaker = about_to_probe(&clock);
    let (ann, gold) = (Key::new("ann").unwrap(), Plan::new("gold", "10/s").unwrap());
    for _ in 0..5 {
        let charge = charge();
        let refund = breaker.refund(&ann, std::slice::from_ref(&gold), &charge);
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

    fn refund<'a, 'k, 'p, 'r, 'f>(
        &'a self,
        key: &'k Key,
        plans: &'p [Plan],
        refund: &'r Refund,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'f>>
    where
        Self: 'f,
        'a: 'f,
        'k: 'f,
        'p: 'f,
        'r: 'f,
    {
        self.try_acquire(key, plans, refund.units)
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
        assert!(breaker.refund(&ann, &gold, &charge()).await.is_err());
        assert!(breaker.reset(&ann, &gold).await.is_err());
    });
    assert_eq!(store.0.load(Ordering::Relaxed), 0);
}
