//! What is logged of a store that fails, and what becomes of requests by the kind of the failure.

#![allow(
    clippy::unwrap_used,
    reason = "a value that a test makes is good, or the test fails"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use limiter_core::{
    AbuseDecision, AbuseFailurePolicy, AbuseGuard, AbuseLimiter, AbuseOutcome, AbusePolicy,
    AbuseRepository, AbuseVerdict, Block, BreakerState, Charge, CheckError, CircuitBreaker, Cost,
    Decision, DefaultAbuseLimiter, DefaultRateLimiter, FailureLog, FailurePolicy,
    FallbackRepository, InMemoryPlanRegistry, Key, LocalStore, Observer, Outcome, Plan, PlanName,
    RateLimiter, RateLimiterRepository, Refund, Share, Source, StoreError, Tier, Verdict, minutes,
};
use limiter_testkit::abuse::AbuseModelStore;
use limiter_testkit::{CapturedLog, ManualClock, ModelStore, SeededRandom, block_on};

type Fault = fn() -> StoreError;

fn away() -> StoreError {
    StoreError::unavailable(Charge::Impossible, "connection refused")
}

fn wrong_password() -> StoreError {
    StoreError::misconfigured(
        "give the user and password that the server knows",
        "WRONGPASS",
    )
}

fn wrong_type() -> StoreError {
    StoreError::misconfigured("take a prefix that nothing else uses", "WRONGTYPE")
}

fn full() -> StoreError {
    StoreError::Full { max_keys: 3 }
}

/// A store that fails as it is told, and answers if it is told nothing.
#[derive(Default)]
struct Store {
    fault: Mutex<Option<Fault>>,
    plans: ModelStore,
    attempts: AbuseModelStore,
}

impl Store {
    fn failing(fault: Fault) -> Arc<Self> {
        let store = Self::default();
        store.suffer(Some(fault));
        Arc::new(store)
    }

    fn suffer(&self, fault: Option<Fault>) {
        *self.fault.lock().unwrap() = fault;
    }

    fn fate(&self) -> Result<(), StoreError> {
        let fault = *self.fault.lock().unwrap();
        fault.map_or(Ok(()), |fault| Err(fault()))
    }
}

#[async_trait]
impl RateLimiterRepository for Store {
    async fn try_acquire(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        self.fate()?;
        self.plans.try_acquire(key, plans, cost).await
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        self.fate()?;
        self.plans.peek(key, plans, cost).await
    }

    async fn refund(
        &self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
    ) -> Result<Verdict, StoreError> {
        self.fate()?;
        self.plans.refund(key, plans, refund).await
    }

    async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        self.fate()?;
        self.plans.reset(key, plans).await
    }
}

#[async_trait]
impl AbuseRepository for Store {
    async fn record(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        self.fate()?;
        self.attempts.record(key, policy).await
    }

    async fn status(&self, key: &Key, policy: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        self.fate()?;
        self.attempts.status(key, policy).await
    }

    async fn forgive(&self, key: &Key, policy: &AbusePolicy) -> Result<(), StoreError> {
        self.fate()?;
        self.attempts.forgive(key, policy).await
    }

    async fn unblock(&self, key: &Key, policy: &AbusePolicy) -> Result<Option<Block>, StoreError> {
        self.fate()?;
        self.attempts.unblock(key, policy).await
    }
}

fn limiter(store: Arc<dyn RateLimiterRepository>) -> DefaultRateLimiter {
    let plans = InMemoryPlanRegistry::new([Plan::new("gold", "1000000/s").unwrap()]).unwrap();
    DefaultRateLimiter::new(Arc::new(plans), store)
}

fn check(limiter: &DefaultRateLimiter) -> Result<Decision, CheckError> {
    let (key, gold) = (
        Key::new("203.0.113.9").unwrap(),
        [PlanName::new("gold").unwrap()],
    );
    block_on(limiter.check(&key, &gold, Cost::ONE))
}

fn login() -> AbusePolicy {
    let policy = AbusePolicy::builder("login").tier(Tier::new("temp", 1000, minutes(10)));
    policy.build().unwrap()
}

fn record(limiter: &DefaultAbuseLimiter) -> AbuseDecision {
    block_on(limiter.record(&Key::new("203.0.113.9").unwrap(), &login()))
}

/// A log whose time the test moves.
fn timed() -> (Arc<FailureLog>, ManualClock) {
    let clock = ManualClock::new();
    (
        Arc::new(FailureLog::with_clock(Arc::new(clock.clone()))),
        clock,
    )
}

#[test]
fn who_sets_nothing_up_hears_of_a_store_that_fails() {
    let log = CapturedLog::start();
    let limiter = limiter(Store::failing(away));
    for _ in 0..1000 {
        assert_eq!(check(&limiter).unwrap().source(), Source::FailOpen);
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    assert!(line.starts_with("ERROR store is unavailable"), "{line}");
    assert!(
        line.contains("connection refused") && line.contains("pass unlimited"),
        "{line}"
    );
    assert!(!line.contains("203.0.113.9"), "a key: {line}");
}

#[test]
fn who_sets_nothing_up_hears_of_a_store_of_attempts_that_fails() {
    let log = CapturedLog::start();
    let limiter = DefaultAbuseLimiter::new(
        Store::failing(wrong_password),
        Arc::new(AbuseModelStore::new()),
    );
    for _ in 0..1000 {
        assert_eq!(record(&limiter).source(), Source::Fallback);
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("WRONGPASS") && lines[0].contains("local store"),
        "{lines:?}"
    );
}

#[test]
fn each_cause_is_logged_once_a_minute_and_says_how_often_it_came_up() {
    let (log, (failures, clock)) = (CapturedLog::start(), timed());
    let store = Store::failing(wrong_password);
    let limiter = limiter(store.clone()).with_failure_log(failures);
    for _ in 0..10 {
        assert!(check(&limiter).is_err());
    }
    clock.advance(Duration::from_secs(30));
    store.suffer(Some(wrong_type));
    assert!(check(&limiter).is_err());
    clock.advance(Duration::from_secs(30) - Duration::from_micros(1));
    store.suffer(Some(wrong_password));
    assert!(check(&limiter).is_err());
    let lines = log.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].contains("WRONGPASS") && lines[1].contains("WRONGTYPE"),
        "{lines:?}"
    );
    clock.advance(Duration::from_micros(1));
    assert!(check(&limiter).is_err());
    let lines = log.lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(
        lines[2].contains("WRONGPASS") && lines[2].contains("(10 more"),
        "{lines:?}"
    );
}

#[test]
fn clock_that_steps_back_does_not_silence_the_log() {
    let (log, (failures, clock)) = (CapturedLog::start(), timed());
    let limiter = limiter(Store::failing(away)).with_failure_log(failures);
    assert!(check(&limiter).is_ok());
    clock.step_back(Duration::from_secs(3600));
    assert!(check(&limiter).is_ok());
    clock.advance(Duration::from_secs(60));
    assert!(check(&limiter).is_ok());
    assert_eq!(log.lines().len(), 2);
}

#[test]
fn store_that_answers_again_is_logged_once_it_has_answered_for_a_second() {
    let (log, (failures, clock)) = (CapturedLog::start(), timed());
    let store = Store::failing(away);
    let limiter = limiter(store.clone()).with_failure_log(failures);
    assert!(check(&limiter).is_ok());
    clock.advance(Duration::from_secs(5));
    assert!(check(&limiter).is_ok());
    store.suffer(None);
    clock.advance(Duration::from_secs(1) - Duration::from_micros(1));
    assert!(check(&limiter).is_ok());
    assert_eq!(log.lines().len(), 1);
    clock.advance(Duration::from_micros(1));
    for _ in 0..10 {
        assert!(check(&limiter).is_ok());
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    let again = "INFO store answers again, after 2 failures in 5.0s";
    assert!(lines[1].starts_with(again), "{lines:?}");
}

/// What the store's client said must not be lost behind an open breaker, minute after minute.
#[test]
fn open_breaker_is_a_cause_beside_the_one_that_opened_it() {
    let (log, (failures, clock)) = (CapturedLog::start(), timed());
    let (store, random) = (Store::failing(away), SeededRandom::new(1));
    let breaker = CircuitBreaker::new(store, Arc::new(clock.clone()), Arc::new(random));
    let plans = InMemoryPlanRegistry::new([Plan::new("gold", "10/s").unwrap()]).unwrap();
    let limiter = DefaultRateLimiter::new(Arc::new(plans), Arc::new(breaker));
    let limiter = limiter.with_failure_log(failures);
    for _ in 0..12_000 {
        clock.advance(Duration::from_millis(10));
        assert!(check(&limiter).is_ok());
    }
    let lines = log.lines();
    let of = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
    assert_eq!(of("connection refused"), 2, "{lines:?}");
    assert_eq!(of("circuit breaker is open"), 2, "{lines:?}");
    assert_eq!(lines.len(), 4, "{lines:?}");
}

/// A store that comes and goes ten times a second for ten minutes.
#[test]
fn store_that_comes_and_goes_does_not_flood_the_log() {
    let (log, (failures, clock)) = (CapturedLog::start(), timed());
    let store = Store::failing(away);
    let limiter = limiter(store.clone()).with_failure_log(failures);
    for nth in 0..600_u32 {
        // For four seconds of five, and then whole.
        store.suffer((nth % 5 != 4).then_some(away));
        assert!(check(&limiter).is_ok());
        store.suffer(None);
        clock.advance(Duration::from_millis(500));
        assert!(check(&limiter).is_ok());
        clock.advance(Duration::from_millis(500));
    }
    let lines = log.lines();
    let (failed, again): (Vec<_>, Vec<_>) =
        lines.iter().partition(|line| line.starts_with("ERROR"));
    assert_eq!(failed.len(), 10, "{lines:?}");
    assert!((1..=10).contains(&again.len()), "{lines:?}");
}

/// Callers may be able to make causes up, such as plans that do not exist.
#[test]
fn many_causes_do_not_flood_the_log() {
    let log = CapturedLog::start();
    let clock = ManualClock::new();
    let throttle = limiter_core::LogThrottle::with_clock(Arc::new(clock.clone()));
    let come_up = |from: u32| {
        for nth in from..from + 1000 {
            clock.advance(Duration::from_micros(1));
            throttle.error(&format!("cause {nth}"), || format!("line {nth}"));
        }
    };
    come_up(0);
    assert_eq!(log.lines().len(), 33, "32 causes, and one line for others");
    throttle.error("cause 31", || "a cause that is known".to_owned());
    throttle.error("cause 999", || "one of the others".to_owned());
    assert_eq!(log.lines().len(), 33);
    clock.advance(minutes(1));
    come_up(1000);
    let lines = log.lines();
    assert_eq!(lines.len(), 66, "those of a minute ago are forgotten");
    let unlogged = lines.iter().filter(|line| line.contains("more since"));
    assert_eq!(unlogged.count(), 0, "{lines:?}");
    assert!(
        format!("{throttle:?}").contains("causes: 33"),
        "{throttle:?}"
    );
}

#[test]
fn what_a_server_says_stays_on_one_line() {
    let log = CapturedLog::start();
    let limiter = limiter(Store::failing(|| {
        StoreError::unavailable(Charge::Impossible, "a\r\nERROR forged\u{1b}[2J")
    }));
    assert!(check(&limiter).is_ok());
    assert!(
        !log.lines()[0].contains(char::is_control),
        "{:?}",
        log.lines()
    );
}

/// Counts what an operator's metrics would.
#[derive(Default)]
struct Kinds(Mutex<Vec<&'static str>>);

impl Observer for Kinds {
    fn decided(&self, _: &Decision) {}

    fn store_failed(&self, error: &StoreError) {
        self.0.lock().unwrap().push(error.kind());
    }

    fn breaker_changed(&self, _: BreakerState) {}
}

#[test]
fn observer_gets_the_kind_of_each_failure() {
    let kinds = Arc::new(Kinds::default());
    let store = Store::failing(away);
    let limiter = limiter(store.clone()).with_observer(kinds.clone());
    for fault in [away, wrong_password, full] {
        store.suffer(Some(fault));
        let _ = check(&limiter);
    }
    assert_eq!(
        *kinds.0.lock().unwrap(),
        ["unavailable", "misconfigured", "full"]
    );
    let kinds = Arc::new(Kinds::default());
    let local = Arc::new(AbuseModelStore::new());
    let limiter =
        DefaultAbuseLimiter::new(Store::failing(full), local).with_observer(kinds.clone());
    let _ = record(&limiter);
    assert_eq!(*kinds.0.lock().unwrap(), ["full"]);
}

#[test]
fn misconfigured_store_is_an_error_unless_that_is_tolerated() {
    for policy in [
        FailurePolicy::FailOpen,
        FailurePolicy::FailClosed,
        fallback(Store::default()),
    ] {
        let limiter = limiter(Store::failing(wrong_password)).with_failure_policy(policy.clone());
        let told = check(&limiter).unwrap_err();
        assert!(
            matches!(told, CheckError::Store(StoreError::Misconfigured { .. })),
            "{told:?}"
        );
        let tolerant = limiter.tolerating_misconfiguration();
        let expected = match policy {
            FailurePolicy::FailOpen => Source::FailOpen,
            FailurePolicy::FailClosed => Source::FailClosed,
            _ => Source::Fallback,
        };
        assert_eq!(check(&tolerant).unwrap().source(), expected);
    }
}

#[test]
fn misconfigured_store_of_attempts_is_found_when_the_service_starts() {
    let verify = |fault: Option<Fault>| {
        let store = Store::default();
        store.suffer(fault);
        let limiter = DefaultAbuseLimiter::new(Arc::new(store), Arc::new(AbuseModelStore::new()));
        block_on(AbuseGuard::for_sign_in(Arc::new(limiter), login()).verify())
    };
    let found = verify(Some(wrong_password)).unwrap_err();
    assert!(
        matches!(*found, StoreError::Misconfigured { .. }),
        "{found:?}"
    );
    assert!(verify(Some(away)).is_ok() && verify(Some(full)).is_ok() && verify(None).is_ok());
}

#[test]
fn full_store_fails_open_unless_it_is_to_deny() {
    let log = CapturedLog::start();
    let open = limiter(Store::failing(full));
    assert_eq!(check(&open).unwrap().source(), Source::FailOpen);
    let denying = open.denying_when_full();
    let denied = check(&denying).unwrap();
    assert_eq!(
        (denied.outcome(), denied.source()),
        (&Outcome::Unavailable, Source::FailClosed)
    );
    assert!(
        log.lines()[0].contains("tracks 3 keys"),
        "{:?}",
        log.lines()
    );
    // What is not full is answered for as before.
    let denying = limiter(Store::failing(away)).denying_when_full();
    assert_eq!(check(&denying).unwrap().source(), Source::FailOpen);
}

#[test]
fn full_store_of_attempts_is_stood_in_for_unless_it_is_to_deny() {
    let open = || {
        DefaultAbuseLimiter::with_failure_policy(Store::failing(full), AbuseFailurePolicy::FailOpen)
    };
    assert_eq!(record(&open()).source(), Source::FailOpen);
    assert_eq!(
        record(&open().denying_when_full()).outcome(),
        &AbuseOutcome::Unavailable
    );
    let local = Arc::new(AbuseModelStore::new());
    let with_local = DefaultAbuseLimiter::new(Store::failing(full), local);
    assert_eq!(record(&with_local).source(), Source::Fallback);
    assert_eq!(
        record(&with_local.denying_when_full()).source(),
        Source::FailClosed
    );
}

fn fallback(local: Store) -> FailurePolicy {
    FailurePolicy::Fallback(LocalStore::new(
        Arc::new(local),
        Share::of_nodes(1).unwrap(),
    ))
}

#[test]
fn local_store_that_fails_as_well_is_logged_and_observed() {
    let (log, kinds) = (CapturedLog::start(), Arc::new(Kinds::default()));
    let local = Store::default();
    local.suffer(Some(full));
    let limiter = limiter(Store::failing(away))
        .with_failure_policy(fallback(local))
        .with_observer(kinds.clone());
    for _ in 0..10 {
        assert_eq!(check(&limiter).unwrap().source(), Source::FailClosed);
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[1].contains("local store is full"), "{lines:?}");
    assert_eq!(kinds.0.lock().unwrap()[..2], ["unavailable", "full"]);
}

#[test]
fn decorator_that_stands_in_is_not_silent() {
    let (log, kinds) = (CapturedLog::start(), Arc::new(Kinds::default()));
    let local = LocalStore::new(Arc::new(ModelStore::new()), Share::of_nodes(1).unwrap());
    let store = Store::failing(away);
    let guarded = FallbackRepository::new(store.clone(), local).with_observer(kinds.clone());
    let (key, gold) = (
        Key::new("ann").unwrap(),
        [Plan::new("gold", "10/s").unwrap()],
    );
    let spend = || block_on(guarded.try_acquire(&key, &gold, Cost::ONE));
    assert_eq!(spend().unwrap().source, Source::Fallback);
    assert!(log.lines()[0].contains("(fallback)"), "{:?}", log.lines());
    assert_eq!(*kinds.0.lock().unwrap(), ["unavailable"]);
    store.suffer(Some(wrong_password));
    assert!(matches!(
        spend().unwrap_err(),
        StoreError::Misconfigured { .. }
    ));
}

/// A share below one unit in 366 days, and one below the cost of a request: each denies, by the
/// policy and by the decorator, and says so once. What is in shadow denies nobody.
#[test]
fn share_that_denies_is_logged_once_with_its_plan() {
    let plans = [
        Plan::new("gold", "10/min").unwrap(),
        Plan::new("yearly", "5/366d").unwrap(),
        Plan::new("trial", "5/366d").unwrap().in_shadow(),
    ];
    let registry = || Arc::new(InMemoryPlanRegistry::new(plans.clone()).unwrap());
    let local = || LocalStore::new(Arc::new(ModelStore::new()), Share::of_nodes(8).unwrap());
    let by_policy = DefaultRateLimiter::new(registry(), Store::failing(away))
        .with_failure_policy(FailurePolicy::Fallback(local()));
    let decorated = FallbackRepository::new(Store::failing(away), local());
    let by_decorator = DefaultRateLimiter::new(registry(), Arc::new(decorated));
    for limiter in [by_policy, by_decorator] {
        let log = CapturedLog::start();
        let deny = |plans: &[&str], units: u32| {
            let names = plans.iter().map(|it| PlanName::new(it).unwrap());
            let (key, names) = (Key::new("ann").unwrap(), names.collect::<Vec<_>>());
            for _ in 0..10 {
                let decision = block_on(limiter.check(&key, &names, Cost::new(units).unwrap()));
                assert_eq!(decision.unwrap().source(), Source::Fallback);
            }
            log.lines().last().cloned().unwrap()
        };
        deny(&["trial"], 1);
        assert_eq!(
            log.lines().len(),
            1,
            "that the shared store is away: {:?}",
            log.lines()
        );
        let line = deny(&["yearly", "trial"], 1);
        let told = "100 % of plan yearly over 8 nodes is less than one unit in 366 days for each";
        assert!(line.contains(told) && line.contains("denied"), "{line}");
        assert_eq!(log.lines().len(), 2, "{:?}", log.lines());
        let line = deny(&["gold", "trial"], 3);
        let told = "cost 3 is more than this node's share of plan gold, which is 2";
        assert!(line.contains(told) && line.contains("denied"), "{line}");
        assert_eq!(log.lines().len(), 3, "{:?}", log.lines());
    }
}

/// Checks are not affected: the line must not say that they pass unlimited, or are turned away.
#[test]
fn local_store_that_gives_nothing_back_is_logged_as_what_it_is() {
    for by_policy in [true, false] {
        let (log, kinds) = (CapturedLog::start(), Arc::new(Kinds::default()));
        let own = Arc::new(Store::default());
        let local = LocalStore::new(own.clone(), Share::of_nodes(1).unwrap());
        let shared = Store::failing(away);
        let limiter = if by_policy {
            let policy = FailurePolicy::Fallback(local);
            let limiter = limiter(shared).with_failure_policy(policy);
            limiter.with_observer(kinds.clone())
        } else {
            let store = FallbackRepository::new(shared, local).with_observer(kinds.clone());
            limiter(Arc::new(store))
        };
        let mut receipt = check(&limiter).unwrap().take_receipt().unwrap();
        own.suffer(Some(wrong_password));
        let refused = block_on(limiter.refund(&mut receipt, Cost::ONE)).unwrap_err();
        assert!(
            matches!(&refused, CheckError::Store(error) if error.kind() == "misconfigured"),
            "{refused:?}"
        );
        let lines = log.lines();
        assert_eq!(lines.len(), 2, "by_policy = {by_policy}: {lines:?}");
        assert!(
            lines[1].starts_with("ERROR the local store") && lines[1].contains("WRONGPASS"),
            "by_policy = {by_policy}: {lines:?}"
        );
        assert_eq!(*kinds.0.lock().unwrap(), ["unavailable", "misconfigured"]);
    }
}

#[test]
fn local_store_that_does_not_forget_is_logged_as_what_it_is() {
    let (log, kinds) = (CapturedLog::start(), Arc::new(Kinds::default()));
    let local = LocalStore::new(Store::failing(away), Share::of_nodes(1).unwrap());
    let shared = Arc::new(Store::default());
    let store = FallbackRepository::new(shared, local).with_observer(kinds.clone());
    let limiter = limiter(Arc::new(store));
    let (key, gold) = (Key::new("ann").unwrap(), [PlanName::new("gold").unwrap()]);
    let error = block_on(limiter.reset(&key, &gold)).unwrap_err();
    let cause = std::error::Error::source(&error).and_then(std::error::Error::source);
    assert!(
        cause.unwrap().to_string().contains("local store"),
        "{error:?}"
    );
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("ERROR the local store is unavailable"),
        "{lines:?}"
    );
    assert_eq!(*kinds.0.lock().unwrap(), ["unavailable"]);
    assert_eq!(check(&limiter).unwrap().source(), Source::Store);
}

#[test]
fn local_store_of_attempts_that_does_not_forget_is_logged_as_what_it_is() {
    let (log, kinds) = (CapturedLog::start(), Arc::new(Kinds::default()));
    let shared = Arc::new(AbuseModelStore::new());
    let limiter = DefaultAbuseLimiter::new(shared, Store::failing(wrong_password));
    let limiter = limiter.with_observer(kinds.clone());
    let ann = Key::new("ann").unwrap();
    assert!(block_on(limiter.forgive(&ann, &login())).is_err());
    assert!(block_on(limiter.unblock(&ann, &login())).is_err());
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("ERROR the local store") && lines[0].contains("WRONGPASS"),
        "{lines:?}"
    );
    assert_eq!(*kinds.0.lock().unwrap(), ["misconfigured", "misconfigured"]);
}
