//! The abuse limiter and the guard, against mocks of their ports.

#![allow(
    clippy::unwrap_used,
    reason = "a value that a test makes is good, or the test fails"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use limiter_core::mock::{MockAbuseRepository, MockClock, MockObserver, MockRandomSource};
use limiter_core::{
    AbuseFailurePolicy, AbuseGuard, AbuseLimiter, AbuseOutcome, AbusePolicy, AbuseRepository,
    AbuseVerdict, Block, BlockChange, BreakerState, Charge, CircuitBreaker, DefaultAbuseLimiter,
    Enforcement, Key, Observer, PlanName, Refusal, RefusalCode, Source, StoreError, Tier,
    Timestamp, hours, minutes,
};

fn key() -> Key {
    Key::new("203.0.113.9").unwrap()
}

fn policy() -> AbusePolicy {
    AbusePolicy::builder("login")
        .tier(Tier::new("temp", 5, minutes(10)).blocking_for(minutes(15)))
        .tier(Tier::new("long", 20, hours(24)))
        .build()
        .unwrap()
}

fn shadow() -> AbusePolicy {
    AbusePolicy::builder("trial")
        .tier(Tier::new("temp", 5, minutes(10)))
        .in_shadow()
        .build()
        .unwrap()
}

fn block() -> Block {
    Block {
        scope: PlanName::new("temp").unwrap(),
        since: Timestamp::from_micros(1_800_000_000_000_000).unwrap(),
        retry_after: Duration::from_millis(899_500),
    }
}

fn verdict(block: Option<Block>, counts: &[u32]) -> AbuseVerdict {
    AbuseVerdict {
        source: Source::Store,
        started: block.is_some(),
        block,
        counts: counts.iter().copied().collect(),
    }
}

fn answering(verdict: AbuseVerdict) -> Arc<dyn AbuseRepository> {
    let mut store = MockAbuseRepository::new();
    let copy = verdict.clone();
    store
        .expect_record()
        .returning(move |_, _| Ok(copy.clone()));
    let copy = verdict.clone();
    store
        .expect_status()
        .returning(move |_, _| Ok(copy.clone()));
    store.expect_forgive().returning(|_, _| Ok(()));
    store
        .expect_unblock()
        .returning(move |_, _| Ok(verdict.block.clone()));
    Arc::new(store)
}

fn failing(error: fn() -> StoreError) -> Arc<dyn AbuseRepository> {
    let mut store = MockAbuseRepository::new();
    store.expect_record().returning(move |_, _| Err(error()));
    store.expect_status().returning(move |_, _| Err(error()));
    store.expect_forgive().returning(move |_, _| Err(error()));
    store.expect_unblock().returning(move |_, _| Err(error()));
    Arc::new(store)
}

fn outage() -> StoreError {
    StoreError::unavailable(Charge::Possible, "connection reset by 10.0.0.7")
}

fn garbled() -> StoreError {
    StoreError::misconfigured("upgrade all nodes", "state of version 9")
}

/// Writes down what it sees.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn add(&self, note: String) {
        self.0.lock().unwrap().push(note);
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observer for Notes {
    fn decided(&self, _: &limiter_core::Decision) {}

    fn store_failed(&self, error: &StoreError) {
        self.add(format!("failed {}", error.kind()));
    }

    fn breaker_changed(&self, _: limiter_core::BreakerState) {}

    fn attempt_decided(&self, decision: &limiter_core::AbuseDecision) {
        self.add(decision.to_string());
    }

    fn block_changed(&self, event: &limiter_core::BlockEvent) {
        let limiter_core::BlockEvent {
            policy,
            scope,
            change,
            enforcement,
            ..
        } = event;
        self.add(format!("{policy} {scope} {change} {enforcement:?}"));
    }
}

#[tokio::test]
async fn a_decision_says_who_decided_and_how_every_tier_stands() {
    let limiter = DefaultAbuseLimiter::new(answering(verdict(None, &[2, 7])), failing(outage));
    let decision = limiter.record(&key(), &policy()).await;
    assert!(decision.is_allowed());
    assert_eq!(decision.source(), Source::Store);
    assert_eq!(
        decision.to_string(),
        "login: allowed (store); temp: 2 of 5; long: 7 of 20"
    );
}

#[tokio::test]
async fn a_blocked_decision_carries_scope_wait_and_beginning() {
    let limiter =
        DefaultAbuseLimiter::new(answering(verdict(Some(block()), &[5, 7])), failing(outage));
    let decision = limiter.record(&key(), &policy()).await;
    let Block {
        scope,
        since,
        retry_after,
    } = block();
    assert_eq!(
        *decision.outcome(),
        AbuseOutcome::Blocked {
            scope,
            retry_after,
            since
        }
    );
    assert_eq!(
        decision.to_string(),
        "login: blocked by temp, retry after 899.5s (store); temp: 5 of 5; long: 7 of 20"
    );
}

#[tokio::test]
async fn an_observer_sees_blocks_unblocks_and_one_line_per_decision_without_the_key() {
    let notes = Arc::new(Notes::default());
    let store = answering(verdict(Some(block()), &[5, 7]));
    let limiter = DefaultAbuseLimiter::with_failure_policy(store, AbuseFailurePolicy::FailClosed)
        .with_observer(notes.clone());
    let _ = limiter.record(&key(), &policy()).await;
    assert_eq!(
        notes.taken(),
        [
            "login temp started Enforced",
            "login: blocked by temp, retry after 899.5s (store); temp: 5 of 5; long: 7 of 20",
        ]
    );
    assert_eq!(
        limiter.unblock(&key(), &policy()).await.unwrap(),
        Some(block())
    );
    assert_eq!(notes.taken(), ["login temp lifted Enforced"]);
    let _ = limiter.status(&key(), &policy()).await;
    assert_eq!(notes.taken(), Vec::<String>::new());
}

#[tokio::test]
async fn an_observer_is_told_of_a_block_once_and_not_of_every_attempt_that_meets_it() {
    let mut observer = MockObserver::new();
    observer
        .expect_block_changed()
        .withf(|event| event.change == BlockChange::Started)
        .times(1)
        .return_const(());
    observer.expect_attempt_decided().times(2).return_const(());
    let mut store = MockAbuseRepository::new();
    let mut first = true;
    store.expect_record().returning(move |_, _| {
        let started = std::mem::replace(&mut first, false);
        Ok(AbuseVerdict {
            started,
            ..verdict(Some(block()), &[5, 5])
        })
    });
    let limiter = DefaultAbuseLimiter::new(Arc::new(store), failing(outage))
        .with_observer(Arc::new(observer));
    for _ in 0..2 {
        assert!(!limiter.record(&key(), &policy()).await.is_allowed());
    }
}

#[tokio::test]
async fn a_policy_in_shadow_reports_and_never_blocks() {
    let notes = Arc::new(Notes::default());
    let limiter =
        DefaultAbuseLimiter::new(answering(verdict(Some(block()), &[5])), failing(outage))
            .with_observer(notes.clone());
    let decision = limiter.record(&key(), &shadow()).await;
    assert!(decision.is_allowed());
    assert_eq!(decision.shadow_block(), Some(&block()));
    assert_eq!(
        notes.taken(),
        [
            "trial temp started Shadow",
            "trial: allowed (store); in shadow, would be blocked by temp, retry after 899.5s; temp: 5 of 5",
        ]
    );
    assert_eq!(shadow().enforcement(), Enforcement::Shadow);
}

#[tokio::test]
async fn when_the_store_fails_the_local_one_stands_in_by_default() {
    let notes = Arc::new(Notes::default());
    let local = answering(verdict(Some(block()), &[5, 5]));
    let limiter = DefaultAbuseLimiter::new(failing(outage), local).with_observer(notes.clone());
    let decision = limiter.record(&key(), &policy()).await;
    assert_eq!(decision.source(), Source::Fallback);
    assert_eq!(decision.scope().map(PlanName::as_str), Some("temp"));
    assert_eq!(
        decision.failure().map(StoreError::kind),
        Some("unavailable")
    );
    assert_eq!(
        notes.taken(),
        [
            "failed unavailable",
            "login temp started Enforced",
            "login: blocked by temp, retry after 899.5s (fallback, store unavailable); temp: 5 of 5; long: 5 of 20",
        ]
    );
    let status = limiter.status(&key(), &policy()).await;
    assert_eq!(status.source(), Source::Fallback);
}

#[tokio::test]
async fn what_neither_store_answers_is_turned_away() {
    let limiter = DefaultAbuseLimiter::new(failing(outage), failing(outage));
    let decision = limiter.record(&key(), &policy()).await;
    assert_eq!(*decision.outcome(), AbuseOutcome::Unavailable);
    assert_eq!(decision.source(), Source::FailClosed);
    assert_eq!(
        decision.to_string(),
        "login: turned away (fail_closed, store unavailable)"
    );
}

#[tokio::test]
async fn failing_open_and_closed_are_chosen_by_name_and_named_in_the_decision() {
    let with = |policy| DefaultAbuseLimiter::with_failure_policy(failing(outage), policy);
    let open = with(AbuseFailurePolicy::FailOpen);
    let closed = with(AbuseFailurePolicy::FailClosed);
    let decision = open.record(&key(), &policy()).await;
    assert!(decision.is_allowed());
    assert_eq!(decision.source(), Source::FailOpen);
    let decision = closed.status(&key(), &policy()).await;
    assert_eq!(*decision.outcome(), AbuseOutcome::Unavailable);
    assert_eq!(decision.source(), Source::FailClosed);
    let decision = closed.record(&key(), &shadow()).await;
    assert!(
        decision.is_allowed(),
        "a policy on trial turned somebody away"
    );
}

#[tokio::test]
async fn forgiving_and_unblocking_reach_both_stores_and_tell_of_failure() {
    let mut local = MockAbuseRepository::new();
    local.expect_forgive().times(1).returning(|_, _| Ok(()));
    local
        .expect_unblock()
        .times(1)
        .returning(|_, _| Ok(Some(block())));
    let limiter = DefaultAbuseLimiter::new(failing(outage), Arc::new(local));
    assert!(limiter.forgive(&key(), &policy()).await.is_err());
    assert!(limiter.unblock(&key(), &policy()).await.is_err());
}

fn guard(store: Arc<dyn AbuseRepository>) -> AbuseGuard {
    let policy_of_failure = AbuseFailurePolicy::FailClosed;
    let limiter = DefaultAbuseLimiter::with_failure_policy(store, policy_of_failure);
    AbuseGuard::for_sign_in(Arc::new(limiter), policy())
}

fn parts(refusal: &Refusal) -> (&str, &str, Option<u64>, Option<&str>) {
    (
        refusal.code().as_str(),
        refusal.message(),
        refusal.retry_after_secs(),
        refusal.details(),
    )
}

#[tokio::test]
async fn a_guard_lets_pass_what_is_allowed() {
    let guard = guard(answering(verdict(None, &[1, 1])));
    assert_eq!(guard.attempt(&key()).await, Ok(()));
    assert_eq!(guard.look(&key()).await, Ok(()));
    assert_eq!(guard.succeeded(&key()).await, Ok(()));
}

#[tokio::test]
async fn a_guard_refuses_with_a_code_for_the_flow_and_the_wait_in_the_message() {
    let guard = guard(answering(verdict(Some(block()), &[5, 5])));
    let refusal = guard.attempt(&key()).await.unwrap_err();
    let message = "Too many attempts. Try again in 900 seconds.";
    assert_eq!(
        parts(&refusal),
        ("too_many_attempts", message, Some(900), None)
    );
    assert_eq!(refusal.context().to_string(), r#"{"retryAfter":900}"#);
    assert_eq!(refusal.code().http_status(), 429);
    assert_eq!(refusal.to_string(), format!("too_many_attempts: {message}"));

    let store = answering(verdict(Some(block()), &[5, 5]));
    let limiter = DefaultAbuseLimiter::new(store, failing(outage));
    let guard = AbuseGuard::for_requests(Arc::new(limiter), policy()).naming("the export");
    let refusal = guard.look(&key()).await.unwrap_err();
    let message = "Too many attempts for the export. Try again in 900 seconds.";
    assert_eq!(parts(&refusal), ("rate_limited", message, Some(900), None));
}

#[tokio::test]
async fn a_guard_tells_trouble_by_kind_and_details_only_when_asked() {
    let refusal = guard(failing(outage)).attempt(&key()).await.unwrap_err();
    assert_eq!(refusal.code(), RefusalCode::ServiceUnavailable);
    assert_eq!(refusal.details(), None);
    assert!(!format!("{refusal:?} {refusal}").contains("10.0.0.7"));

    let refusal = guard(failing(garbled)).attempt(&key()).await.unwrap_err();
    assert_eq!(refusal.code(), RefusalCode::Internal);
    assert_eq!(refusal.code().http_status(), 500);

    let telling = guard(failing(garbled)).telling_details();
    let refusal = telling.succeeded(&key()).await.unwrap_err();
    assert_eq!(
        refusal.details(),
        Some("store is misconfigured: upgrade all nodes: state of version 9")
    );
}

#[tokio::test]
async fn an_open_breaker_records_nothing_and_the_policy_takes_over() {
    let mut store = MockAbuseRepository::new();
    store
        .expect_record()
        .times(20)
        .returning(|_, _| Err(outage()));
    let (mut clock, mut random) = (MockClock::new(), MockRandomSource::new());
    clock.expect_now().return_const(Timestamp::EPOCH);
    random.expect_next_u64().return_const(0_u64);
    let breaker = Arc::new(CircuitBreaker::new(
        Arc::new(store),
        Arc::new(clock),
        Arc::new(random),
    ));
    let limiter =
        DefaultAbuseLimiter::with_failure_policy(breaker.clone(), AbuseFailurePolicy::FailClosed);
    for _ in 0..30 {
        let decision = limiter.record(&key(), &policy()).await;
        assert_eq!(decision.source(), Source::FailClosed);
    }
    assert_eq!(breaker.state(), BreakerState::Open);
    let refused = breaker.status(&key(), &policy()).await.unwrap_err();
    assert!(refused.is_outage() && !refused.may_have_charged());
}
