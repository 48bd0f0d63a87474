//! [`CircuitBreaker`]: a repository that stops asking a store that fails.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::call_window::CallResult;
use super::machine::{Machine, Permit};
use super::{BreakerSettings, BreakerState, InvalidBreakerSettings};
use crate::{
    AbusePolicy, AbuseRepository, AbuseVerdict, Block, Charge, Clock, Cost, Key, NoObserver,
    Observer, Plan, RandomSource, RateLimiterRepository, Refund, StoreError, Timestamp, Verdict,
};

/// A repository that stops asking a store that fails or dawdles, and tries it again with care.
///
/// - *Closed*: calls go through. When the store falls silent, or too many calls of the last while failed or were slow, it opens.
/// - *Open*: calls fail at once with [`StoreError::Unavailable`] and [`Charge::Impossible`]; the store is not even called. After a
///   time that doubles with each relapse, up to a bound, it is half-open.
/// - *Half-open*: one call at a time goes through as a probe. Enough good ones close it, a bad or slow one opens it, and so does one
///   that has not ended within its time.
///
/// With the default [`BreakerSettings`], at 50 calls a second or more:
/// - it opens within 500 ms of complete silence, whatever was before;
/// - it is closed again within 1 s of the moment from which the store answers, in less time than makes a call slow, however long the
///   store was away;
/// - a store that is away is asked at most six times a second.
///
/// Only errors that are an [outage](StoreError::is_outage) count. A wrong set-up does not open it: the store that says so is there.
///
/// It learns from calls that end: put a store without a deadline of its own into a
/// [`DeadlineRepository`](crate::DeadlineRepository) first.
///
/// It works for both ports, [`RateLimiterRepository`] and [`AbuseRepository`]; a store of both has a breaker for each.
///
/// # Cancel safety
/// A call that is dropped drops the call to the store: that store's own promise holds. If it had been slow by then, it counts
/// as slow; otherwise it counts as nothing, and if it was a probe, the next call is one.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use limiter_core::{BreakerSettings, BreakerState, CircuitBreaker, Clock, RandomSource, RateLimiterRepository};
///
/// fn guard(
///     store: Arc<dyn RateLimiterRepository>, clock: Arc<dyn Clock>, random: Arc<dyn RandomSource>,
/// ) -> CircuitBreaker {
///     let breaker = CircuitBreaker::new(store, clock, random);
///     assert_eq!(breaker.state(), BreakerState::Closed);
///     breaker
/// }
/// ```
pub struct CircuitBreaker<R: ?Sized = dyn RateLimiterRepository> {
    inner: Arc<R>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn RandomSource>,
    observer: Arc<dyn Observer>,
    slow_call: Duration,
    shared: Mutex<Shared>,
}

struct Shared {
    machine: Machine,
    mode: BreakerMode,
}

impl Shared {
    const fn state(&self) -> BreakerState {
        match self.mode {
            BreakerMode::Automatic => self.machine.state(),
            BreakerMode::Disabled => BreakerState::Closed,
            BreakerMode::ForcedOpen => BreakerState::Open,
        }
    }
}

/// Whether a breaker works by itself, or is held by an operator's hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BreakerMode {
    /// Opens and closes by itself.
    #[default]
    Automatic,
    /// Lets every call through, whatever happens.
    Disabled,
    /// Lets no call through: takes the store out of the path.
    ForcedOpen,
}

impl<R: ?Sized> CircuitBreaker<R> {
    /// Guards `inner` with the default [`BreakerSettings`].
    #[must_use]
    pub fn new(inner: Arc<R>, clock: Arc<dyn Clock>, random: Arc<dyn RandomSource>) -> Self {
        Self::with_checked(inner, clock, random, BreakerSettings::new())
    }

    /// Guards `inner` with `settings`.
    ///
    /// # Errors
    /// [`InvalidBreakerSettings`] if a setting is out of bounds.
    pub fn with_settings(
        inner: Arc<R>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        settings: BreakerSettings,
    ) -> Result<Self, InvalidBreakerSettings> {
        settings.check()?;
        Ok(Self::with_checked(inner, clock, random, settings))
    }

    fn with_checked(
        inner: Arc<R>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        settings: BreakerSettings,
    ) -> Self {
        let shared = Shared {
            machine: Machine::new(settings),
            mode: BreakerMode::Automatic,
        };
        Self {
            inner,
            clock,
            random,
            observer: Arc::new(NoObserver),
            slow_call: settings.slow_call,
            shared: Mutex::new(shared),
        }
    }

    /// Tells `observer` of every change of state.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// Returns where the breaker stands.
    #[must_use]
    pub fn state(&self) -> BreakerState {
        self.lock().state()
    }

    /// Takes the breaker in hand, or lets it go.
    pub fn set_mode(&self, mode: BreakerMode) {
        self.changing(|shared| shared.mode = mode);
    }

    /// Makes a call if the breaker lets it through; else `call` is not even built, as a store may act on that already.
    async fn guarded<T, F>(&self, call: impl FnOnce() -> F + Send) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>> + Send,
    {
        let started = self.clock.now();
        let Some(permit) = self.ask(started)? else {
            return call().await;
        };
        let mut running = Running {
            breaker: self,
            permit: Some(permit),
            started,
        };
        let answer = call().await;
        match &answer {
            // Refused before the store was asked: that says nothing of the store.
            Err(StoreError::Request(_)) => running.gives_up(),
            Err(error) if error.is_outage() => running.ended(End::Failed),
            _ => running.ended(End::Answered),
        }
        answer
    }

    /// Returns a permit, none if the breaker is disabled, or an error if it is open.
    fn ask(&self, now: Timestamp) -> Result<Option<Permit>, StoreError> {
        self.changing(|shared| match shared.mode {
            BreakerMode::Automatic => {
                let chance = || self.random.next_u64();
                shared.machine.ask(now, chance).map(Some).map_err(Some)
            }
            BreakerMode::Disabled => Ok(None),
            BreakerMode::ForcedOpen => Err(None),
        })
        .map_err(|retry_in| StoreError::unavailable(Charge::Impossible, CircuitOpen { retry_in }))
    }

    /// Changes the state under the lock and tells the observer of it outside.
    fn changing<T>(&self, change: impl FnOnce(&mut Shared) -> T) -> T {
        let mut shared = self.lock();
        let before = shared.state();
        let answer = change(&mut shared);
        let after = shared.state();
        drop(shared);
        if before != after {
            self.observer.breaker_changed(after);
        }
        answer
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call on its way. Dropped before its end, it gives its permit back, or counts as slow if it had been so.
struct Running<'a, R: ?Sized> {
    breaker: &'a CircuitBreaker<R>,
    permit: Option<Permit>,
    started: Timestamp,
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Answered,
    Failed,
    /// Its caller gave it up.
    GivenUp,
}

impl<R: ?Sized> Running<'_, R> {
    fn ended(&mut self, end: End) {
        let Some(permit) = self.permit.take() else {
            return;
        };
        let now = self.breaker.clock.now();
        let slow = now.since(self.started) > self.breaker.slow_call;
        let result = CallResult {
            failed: end == End::Failed,
            slow,
            unanswered: end != End::Answered,
        };
        let chance = || self.breaker.random.next_u64();
        self.breaker.changing(|shared| {
            if end == End::GivenUp && !slow {
                shared.machine.give_up(permit);
            } else {
                shared.machine.tell(permit, now, result, chance);
            }
        });
    }

    /// Ends a call from which nothing could be learnt, however long it took.
    fn gives_up(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.breaker
                .changing(|shared| shared.machine.give_up(permit));
        }
    }
}

impl<R: ?Sized> Drop for Running<'_, R> {
    fn drop(&mut self) {
        self.ended(End::GivenUp);
    }
}

/// The cause of a call that a circuit breaker did not let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitOpen {
    /// `None` if an operator holds it open.
    retry_in: Option<Duration>,
}

impl std::error::Error for CircuitOpen {}

impl fmt::Display for CircuitOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry_in {
            Some(wait) => write!(f, "circuit breaker is open, next try in {wait:?}"),
            None => f.write_str("circuit breaker is held open"),
        }
    }
}

#[async_trait]
impl<R: RateLimiterRepository + ?Sized> RateLimiterRepository for CircuitBreaker<R> {
    async fn try_acquire(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        self.guarded(|| self.inner.try_acquire(key, plans, cost))
            .await
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        self.guarded(|| self.inner.peek(key, plans, cost)).await
    }

    async fn refund(
        &self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
    ) -> Result<Verdict, StoreError> {
        self.guarded(|| self.inner.refund(key, plans, refund)).await
    }

    async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        self.guarded(|| self.inner.reset(key, plans)).await
    }
}

#[async_trait]
impl<R: AbuseRepository + ?Sized> AbuseRepository for CircuitBreaker<R> {
    async fn record(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        self.guarded(|| self.inner.record(key, policy)).await
    }

    async fn status(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        self.guarded(|| self.inner.status(key, policy)).await
    }

    async fn forgive(&self, key: &Key, policy: &AbusePolicy) -> Result<(), StoreError> {
        self.guarded(|| self.inner.forgive(key, policy)).await
    }

    async fn unblock(&self, key: &Key, policy: &AbusePolicy) -> Result<Option<Block>, StoreError> {
        self.guarded(|| self.inner.unblock(key, policy)).await
    }
}
