//! The orchestrator and the decorators, against mocks of their ports.

#![allow(
    clippy::unwrap_used,
    reason = "a value that a test makes is good, or the test fails"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use limiter_core::mock::{MockObserver, MockRandomSource, MockRateLimiterRepository};
use limiter_core::{
    BreakerMode, BreakerSettings, BreakerState, Charge, CheckError, CircuitBreaker, Clock, Cost,
    DefaultRateLimiter, FailurePolicy, FallbackRepository, InMemoryPlanRegistry, InvalidRequest,
    Key, LocalStore, Outcome, Plan, PlanName, PlanVerdict, RateLimiter, RateLimiterRepository,
    Reason, Share, Source, StoreError, Timestamp, Verdict,
};

fn key() -> Key {
    Key::new("user:42").unwrap()
}

fn names(names: &[&str]) -> Vec<PlanName> {
    names
        .iter()
        .map(|name| PlanName::new(name).unwrap())
        .collect()
}

fn registry() -> Arc<InMemoryPlanRegistry> {
    let plans = [
        Plan::new("gold", "10/s"),
        Plan::new("daily", "sliding 1000/24h"),
        Plan::new("trial", "5/min").map(Plan::in_shadow),
    ];
    Arc::new(InMemoryPlanRegistry::new(plans.map(Result::unwrap)).unwrap())
}

fn verdict(admitted: bool, plans: &[PlanVerdict]) -> Verdict {
    let retry_after = plans
        .iter()
        .map(|plan| plan.retry_after)
        .max()
        .unwrap_or_default();
    Verdict {
        source: Source::Store,
        admitted,
        retry_after,
        plans: plans.iter().copied().collect(),
    }
}

fn admits(remaining: u32) -> PlanVerdict {
    PlanVerdict {
        admits: true,
        remaining,
        ..PlanVerdict::default()
    }
}

fn denies(wait_ms: u64, free_after_wait: u32) -> PlanVerdict {
    let retry_after = Duration::from_millis(wait_ms);
    PlanVerdict {
        retry_after,
        free_after_wait,
        ..PlanVerdict::default()
    }
}

fn outage() -> StoreError {
    StoreError::unavailable(Charge::Possible, "connection reset")
}

fn answering(answer: Verdict) -> Arc<dyn RateLimiterRepository> {
    let mut store = MockRateLimiterRepository::new();
    store
        .expect_try_acquire()
        .returning(move |_, _, _| Ok(answer.clone()));
    Arc::new(store)
}

fn failing(error: fn() -> StoreError) -> Arc<dyn RateLimiterRepository> {
    let mut store = MockRateLimiterRepository::new();
    store
        .expect_try_acquire()
        .returning(move |_, _, _| Err(error()));
    store.expect_peek().returning(move |_, _, _| Err(error()));
    store.expect_refund().returning(move |_, _, _| Err(error()));
    store.expect_reset().returning(move |_, _| Err(error()));
    Arc::new(store)
}

#[tokio::test]
async fn an_allowed_decision_says_how_every_plan_stands() {
    let store = answering(verdict(true, &[admits(9), admits(999)]));
    let limiter = DefaultRateLimiter::new(registry(), store);
    let decision = limiter
        .check(&key(), &names(&["gold", "daily"]), Cost::ONE)
        .await
        .unwrap();
    assert!(decision.is_allowed());
    assert_eq!(
        (decision.source(), decision.reason()),
        (Source::Store, Reason::WithinLimits)
    );
    assert_eq!(
        decision.to_string(),
        "allowed (store, within_limits); gold: 9 of 10 left; daily: 999 of 1000 left"
    );
}

#[tokio::test]
async fn a_denial_names_the_plan_that_takes_longest_its_wait_and_what_is_free_then() {
    let store = answering(verdict(false, &[denies(100, 1), denies(5_000, 3)]));
    let limiter = DefaultRateLimiter::new(registry(), store);
    let decision = limiter
        .check(&key(), &names(&["gold", "daily"]), Cost::ONE)
        .await
        .unwrap();
    let denial = decision.denial().unwrap();
    assert_eq!(denial.plan.as_str(), "daily");
    assert_eq!(
        (denial.retry_after, denial.free_after_wait),
        (Duration::from_secs(5), 3)
    );
    assert_eq!(decision.reason(), Reason::LimitExceeded);
}

#[tokio::test]
async fn a_shadow_plan_is_never_named_as_the_one_that_denied() {
    let store = answering(verdict(false, &[denies(100, 1), denies(5_000, 3)]));
    let limiter = DefaultRateLimiter::new(registry(), store);
    let decision = limiter
        .check(&key(), &names(&["gold", "trial"]), Cost::ONE)
        .await
        .unwrap();
    assert_eq!(decision.denial().unwrap().plan.as_str(), "gold");
    assert!(
        decision
            .to_string()
            .ends_with("trial: 0 of 5 left (shadow, would deny)")
    );
}

/// Every limiter here is asked in both forms, about every chain: whatever the answer is, it is the same.
#[tokio::test]
async fn a_detached_check_decides_as_a_check_does() {
    let stores = [
        answering(verdict(true, &[admits(9)])),
        answering(verdict(false, &[denies(100, 1)])),
        answering(verdict(true, &[])),
        answering(verdict(true, &[admits(9), admits(999)])),
        answering(verdict(true, &[admits(9), denies(5_000, 3)])),
        answering(verdict(false, &[denies(100, 1), denies(5_000, 3)])),
        failing(outage),
        failing(|| InvalidRequest::NoPlans.into()),
    ];
    let chains = [
        vec!["gold"],
        vec!["gold", "daily"],
        vec!["trial"],
        vec!["gold", "trial"],
        vec![],
        vec!["glod"],
        vec!["gold", "glod"],
        vec!["gold", "GOLD"],
    ];
    let local = |store| LocalStore::new(store, Share::of_nodes(4).unwrap());
    let policies = [
        FailurePolicy::FailOpen,
        FailurePolicy::FailClosed,
        FailurePolicy::Fallback(local(answering(verdict(true, &[admits(2), admits(1)])))),
        FailurePolicy::Fallback(local(answering(verdict(false, &[denies(70, 1)])))),
        FailurePolicy::Fallback(local(failing(outage))),
    ];
    for store in &stores {
        for policy in policies.clone() {
            let limiter = DefaultRateLimiter::new(registry(), Arc::clone(store));
            let limiter = Arc::new(limiter.with_failure_policy(policy));
            for (chain, cost) in chains.iter().flat_map(|chain| [(chain, 1), (chain, 11)]) {
                let (chain, cost) = (names(chain), Cost::new(cost).unwrap());
                let checked = limiter.check(&key(), &chain, cost).await;
                let detached = Arc::clone(&limiter)
                    .check_detached(key(), &chain, cost)
                    .await;
                assert_eq!(format!("{detached:?}"), format!("{checked:?}"));
            }
        }
    }
}

#[tokio::test]
async fn a_detached_check_is_seen_once_and_spends_nothing_before_it_is_polled() {
    let mut observer = MockObserver::new();
    observer.expect_decided().times(1).return_const(());
    let mut store = MockRateLimiterRepository::new();
    store
        .expect_try_acquire()
        .times(1)
        .returning(|_, _, _| Ok(verdict(true, &[admits(9)])));
    let limiter = DefaultRateLimiter::new(registry(), Arc::new(store));
    let limiter = Arc::new(limiter.with_observer(Arc::new(observer)));
    drop(Arc::clone(&limiter).check_detached(key(), &names(&["gold"]), Cost::ONE));
    let polled = limiter.check_detached(key(), &names(&["gold"]), Cost::ONE);
    assert!(polled.await.unwrap().is_allowed());
}

#[tokio::test]
async fn a_failing_store_fails_open_by_default_and_says_so() {
    let mut observer = MockObserver::new();
    observer.expect_store_failed().times(1).return_const(());
    observer
        .expect_decided()
        .withf(|decision| decision.source() == Source::FailOpen)
        .times(1)
        .return_const(());
    let limiter =
        DefaultRateLimiter::new(registry(), failing(outage)).with_observer(Arc::new(observer));
    let decision = limiter
        .check(&key(), &names(&["gold"]), Cost::ONE)
        .await
        .unwrap();
    assert!(decision.is_allowed());
    assert_eq!(decision.reason(), Reason::StoreFailed);
}

#[tokio::test]
async fn fail_closed_turns_away_without_a_made_up_wait() {
    let limiter = DefaultRateLimiter::new(registry(), failing(outage))
        .with_failure_policy(FailurePolicy::FailClosed);
    let decision = limiter
        .check(&key(), &names(&["gold"]), Cost::ONE)
        .await
        .unwrap();
    assert_eq!(decision.outcome(), &Outcome::Unavailable);
    assert_eq!(
        (decision.source(), decision.retry_after()),
        (Source::FailClosed, None)
    );
}

/// A local store that admits everything and checks that it is asked for a quarter of `gold`.
fn local_quarter() -> LocalStore {
    let mut local = MockRateLimiterRepository::new();
    local
        .expect_try_acquire()
        .withf(|_, plans, _| plans.first().is_some_and(|plan| plan.limit().units() == 3))
        .returning(|_, _, _| Ok(verdict(true, &[admits(2)])));
    LocalStore::new(Arc::new(local), Share::of_nodes(4).unwrap())
}

#[tokio::test]
async fn fallback_grants_this_nodes_share_and_says_so() {
    let limiter = DefaultRateLimiter::new(registry(), failing(outage))
        .with_failure_policy(FailurePolicy::Fallback(local_quarter()));
    let decision = limiter
        .check(&key(), &names(&["gold"]), Cost::ONE)
        .await
        .unwrap();
    assert_eq!(decision.source(), Source::Fallback);
    assert_eq!(
        (
            decision.plans()[0].limit.units(),
            decision.plans()[0].remaining
        ),
        (10, 2),
        "the plan is told as it is, and what is left of the share"
    );
}

#[tokio::test]
async fn a_fallback_that_fails_too_turns_away() {
    let local = LocalStore::new(failing(outage), Share::of_nodes(1).unwrap());
    let limiter = DefaultRateLimiter::new(registry(), failing(outage))
        .with_failure_policy(FailurePolicy::Fallback(local));
    let decision = limiter
        .check(&key(), &names(&["gold"]), Cost::ONE)
        .await
        .unwrap();
    assert_eq!(decision.source(), Source::FailClosed);
}

#[tokio::test]
async fn the_callers_own_errors_never_fail_open_and_reach_no_store() {
    let untouched = Arc::new(MockRateLimiterRepository::new());
    let limiter = DefaultRateLimiter::new(registry(), untouched);
    let ask = |plans: &[&str], cost| {
        let (key, plans) = (key(), names(plans));
        let limiter = &limiter;
        async move {
            limiter
                .check(&key, &plans, Cost::new(cost).unwrap())
                .await
                .unwrap_err()
        }
    };
    assert!(matches!(
        ask(&["glod"], 1).await,
        CheckError::UnknownPlan(_)
    ));
    assert_eq!(
        ask(&["gold"], 11).await.to_string(),
        "cost 11 is more than plan gold can ever admit: spend at most 10, or raise the plan"
    );
    assert!(matches!(
        ask(&[], 1).await,
        CheckError::Request(InvalidRequest::NoPlans)
    ));
    assert!(matches!(
        ask(&["gold", "GOLD"], 1).await,
        CheckError::Request(InvalidRequest::DuplicatePlan { .. })
    ));
}

#[tokio::test]
async fn a_request_that_the_store_refuses_never_fails_open() {
    let limiter = DefaultRateLimiter::new(registry(), failing(|| InvalidRequest::NoPlans.into()));
    let error = limiter
        .check(&key(), &names(&["gold"]), Cost::ONE)
        .await
        .unwrap_err();
    assert!(matches!(
        error,
        CheckError::Request(InvalidRequest::NoPlans)
    ));
}

#[tokio::test]
async fn peek_refund_and_reset_tell_of_a_store_that_failed() {
    let limiter = DefaultRateLimiter::new(registry(), failing(outage));
    let plans = names(&["gold"]);
    let peeked = limiter.peek(&key(), &plans, Cost::ONE).await.unwrap_err();
    assert!(matches!(peeked, CheckError::Store(error) if error.may_have_charged()));
    assert!(limiter.refund(&key(), &plans, Cost::ONE).await.is_err());
    assert!(limiter.reset(&key(), &plans).await.is_err());
}

#[tokio::test]
async fn the_fallback_decorator_keeps_the_callers_errors_and_answers_for_outages() {
    let plans = [Plan::new("gold", "10/s").unwrap()];
    let guarded = FallbackRepository::new(failing(outage), local_quarter());
    let answer = guarded
        .try_acquire(&key(), &plans, Cost::ONE)
        .await
        .unwrap();
    assert_eq!(answer.source, Source::Fallback);

    let refused =
        FallbackRepository::new(failing(|| InvalidRequest::NoPlans.into()), local_quarter());
    let error = refused
        .try_acquire(&key(), &plans, Cost::ONE)
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Request(_)));
}

#[tokio::test]
async fn the_fallback_decorator_asks_the_local_store_for_every_kind_of_call() {
    let mut local = MockRateLimiterRepository::new();
    local
        .expect_peek()
        .times(1)
        .returning(|_, _, _| Ok(verdict(true, &[admits(2)])));
    local
        .expect_refund()
        .times(1)
        .returning(|_, _, _| Ok(verdict(true, &[admits(3)])));
    local.expect_reset().times(1).returning(|_, _| Ok(()));
    let local = LocalStore::new(Arc::new(local), Share::of_nodes(4).unwrap());
    let guarded = FallbackRepository::new(failing(outage), local);
    let plans = [Plan::new("gold", "10/s").unwrap()];
    assert_eq!(
        guarded
            .peek(&key(), &plans, Cost::ONE)
            .await
            .unwrap()
            .source,
        Source::Fallback
    );
    assert_eq!(
        guarded
            .refund(&key(), &plans, Cost::ONE)
            .await
            .unwrap()
            .plans[0]
            .remaining,
        3
    );
    assert!(
        guarded.reset(&key(), &plans).await.is_err(),
        "the shared store did not confirm it"
    );
}

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
    let breaker = CircuitBreaker::new(Arc::new(store), Arc::new(TestClock::new()), no_jitter())
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

    async fn refund(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
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
    for _ in 0..20 {
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
    breaker.set_mode(BreakerMode::ForcedOpen);
    assert_eq!(breaker.state(), BreakerState::Open);
    assert!(!call(&breaker).await.unwrap_err().may_have_charged());
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
