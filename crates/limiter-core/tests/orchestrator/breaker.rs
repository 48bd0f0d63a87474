//! The circuit breaker around a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use limiter_core::mock::{MockObserver, MockRandomSource, MockRateLimiterRepository};
use limiter_core::{
    BreakerMode, BreakerSettings, BreakerState, CircuitBreaker, Clock, Cost, Key, Plan,
    RateLimiterRepository, Refund, StoreError, Timestamp, Verdict,
};

use crate::{admits, answering, failing, key, outage, verdict};

/// A clock that only the test moves.
#[derive(Clone)]
struct TestClock(Arc<AtomicU64>);

impl TestClock {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(1_800_000_000_000_000)))
    }

    fn advance(&self, millis: u64) {
        self.0.fetch_add(millis * 1_000, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed)).unwrap()
    }
}

fn no_jitter() -> Arc<MockRandomSource> {
    let mut random = MockRandomSource::new();
    random.expect_next_u64().return_const(200_000u64);
    Arc::new(random)
}

async fn call<R: RateLimiterRepository + ?Sized>(
    breaker: &CircuitBreaker<R>,
) -> Result<Verdict, StoreError> {
    breaker
        .try_acquire(&key(), &[Plan::new("gold", "10/s").unwrap()], Cost::ONE)
        .await
}

#[tokio::test]
async fn an_open_breaker_sends_nothing_and_says_that_nothing_was_charged() {
    let mut store = MockRateLimiterRepository::new();
    store
        .expect_try_acquire()
        .times(20)
        .returning(|_, _, _| Err(outage()));
    let mut observer = MockObserver::new();
    observer
        .expect_breaker_changed()
        .withf(|state| *state == BreakerState::Open)
        .times(1)
        .return_const(());
    let second = Duration::from_secs(1);
    let settings = BreakerSettings::new().with_open_for(second, second);
    let breaker = CircuitBreaker::with_settings(
        Arc::new(store),
        Arc::new(TestClock::new()),
        no_jitter(),
        settings,
    )
    .unwrap()
    .with_observer(Arc::new(observer));
    for _ in 0..20 {
        assert!(call(&breaker).await.unwrap_err().may_have_charged());
    }
    assert_eq!(breaker.state(), BreakerState::Open);
    let refused = call(&breaker).await.unwrap_err();
    assert!(refused.is_outage() && !refused.may_have_charged());
    let cause = std::error::Error::source(&refused).unwrap().to_string();
    assert_eq!(cause, "circuit breaker is open, next try in 1s");
}

#[tokio::test]
async fn a_wrong_set_up_does_not_open_the_breaker() {
    let misconfigured = || StoreError::misconfigured("grant the command", "NOPERM");
    let breaker = CircuitBreaker::new(
        failing(misconfigured),
        Arc::new(TestClock::new()),
        no_jitter(),
    );
    for _ in 0..100 {
        assert!(!call(&breaker).await.unwrap_err().is_outage());
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[tokio::test]
async fn slow_answers_open_the_breaker_though_they_are_right() {
    let clock = TestClock::new();
    let (slow, answer) = (clock.clone(), verdict(true, &[admits(9)]));
    let mut store = MockRateLimiterRepository::new();
    store.expect_try_acquire().returning(move |_, _, _| {
        slow.advance(26);
        Ok(answer.clone())
    });
    let breaker = CircuitBreaker::new(Arc::new(store), Arc::new(clock), no_jitter());
    for _ in 0..20 {
        assert!(call(&breaker).await.is_ok());
    }
    assert_eq!(breaker.state(), BreakerState::Open);
}

/// A store whose calls never end.
struct Hanging;

#[async_trait::async_trait]
impl RateLimiterRepository for Hanging {
    async fn try_acquire(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        std::future::pending().await
    }

    async fn peek(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        std::future::pending().await
    }

    async fn refund(&self, _: &Key, _: &[Plan], _: &Refund) -> Result<Verdict, StoreError> {
        std::future::pending().await
    }

    async fn reset(&self, _: &Key, _: &[Plan]) -> Result<(), StoreError> {
        std::future::pending().await
    }
}

/// Starts a call, lets `millis` pass, and gives the call up.
async fn give_up_after<R: RateLimiterRepository + ?Sized>(
    breaker: &CircuitBreaker<R>,
    clock: &TestClock,
    millis: u64,
) {
    let mut running = Box::pin(call(breaker));
    assert!(is_pending_once(running.as_mut()).await, "the call hangs");
    clock.advance(millis);
}

/// Polls once, and says whether the future is still pending.
async fn is_pending_once<F: Future + Unpin>(mut future: F) -> bool {
    std::future::poll_fn(|context| {
        let pending = std::pin::Pin::new(&mut future).poll(context).is_pending();
        std::task::Poll::Ready(pending)
    })
    .await
}

#[tokio::test]
async fn calls_that_were_given_up_count_only_if_they_had_been_slow() {
    let clock = TestClock::new();
    let breaker = CircuitBreaker::new(Arc::new(Hanging), Arc::new(clock.clone()), no_jitter());
    for _ in 0..100 {
        give_up_after(&breaker, &clock, 10).await;
    }
    assert_eq!(
        breaker.state(),
        BreakerState::Closed,
        "callers may change their minds"
    );
    for _ in 0..10 {
        give_up_after(&breaker, &clock, 30).await;
    }
    assert_eq!(
        breaker.state(),
        BreakerState::Open,
        "a store that hangs is in trouble"
    );
}

#[tokio::test]
async fn an_operator_can_force_the_breaker_open_or_disable_it() {
    let breaker = CircuitBreaker::new(
        answering(verdict(true, &[admits(9)])),
        Arc::new(TestClock::new()),
        no_jitter(),
    );
    let mut observer = MockObserver::new();
    for state in [BreakerState::Open, BreakerState::Closed] {
        let told = observer.expect_breaker_changed();
        told.withf(move |told| *told == state)
            .times(1)
            .return_const(());
    }
    let breaker = breaker.with_observer(Arc::new(observer));
    breaker.set_mode(BreakerMode::ForcedOpen);
    assert_eq!(breaker.state(), BreakerState::Open);
    let refused = call(&breaker).await.unwrap_err();
    assert!(!refused.may_have_charged());
    let cause = std::error::Error::source(&refused).unwrap().to_string();
    assert_eq!(cause, "circuit breaker is held open");
    breaker.set_mode(BreakerMode::Disabled);
    assert!(call(&breaker).await.is_ok());
    breaker.set_mode(BreakerMode::Automatic);
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[test]
fn settings_out_of_bounds_are_refused_with_the_rule() {
    let bad =
        BreakerSettings::new().with_open_for(Duration::from_secs(40), Duration::from_secs(30));
    let refused = CircuitBreaker::with_settings(
        failing(outage),
        Arc::new(TestClock::new()),
        no_jitter(),
        bad,
    );
    assert_eq!(
        refused.err().unwrap().to_string(),
        "circuit breaker settings are not allowed: open_for must not exceed open_at_most"
    );
    let edges = [
        BreakerSettings::new().with_window(Duration::from_millis(999)),
        BreakerSettings::new().with_min_calls(0),
        BreakerSettings::new().with_failure_percent(101),
        BreakerSettings::new().with_slow_call(Duration::ZERO),
        BreakerSettings::new().with_slow_percent(0),
        BreakerSettings::new().with_open_for(Duration::ZERO, Duration::from_secs(1)),
        BreakerSettings::new().with_open_for(Duration::from_secs(1), Duration::from_secs(3601)),
        BreakerSettings::new().with_successes_to_close(0),
    ];
    assert!(edges.iter().all(|settings| settings.check().is_err()));
}
