//! A circuit breaker with its defaults before a real server that is stopped and goes on, under load: it opens in time, closes in time,
//! and meanwhile one call at a time reaches the store.
#![cfg(test)]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use limiter_core::{
    BreakerState, CircuitBreaker, Clock, Cost, DefaultRateLimiter, InMemoryPlanRegistry, Key, Plan,
    RandomSource, RateLimiter, RateLimiterRepository, Refund, Source, StoreError, Timestamp,
    Verdict,
};
use limiter_store_tests::{
    Crowd, DEADLINE, PATIENT, Stage, Store, faults_on_clients, key, layout, plan, recovers, spend,
};
use limiter_testkit::server::RedisServer;
use tokio::task::JoinHandle;
use tokio::time::sleep;

faults_on_clients! {
    stopped_for_half_a_second
    stopped_for_seconds_after_thousands_of_calls
    stopped_for_longer
    killed_and_restarted
    wrong_password_does_not_open_it
}

/// What the README promises.
const OPENS: Duration = Duration::from_millis(500);
const CLOSES: Duration = Duration::from_secs(1);
/// The least load of which it is promised: fifty calls a second.
const EVERY: Duration = Duration::from_millis(20);

/// How many calls there were before the server went away, and how many come at a time from then on.
struct Calls {
    before: u32,
    at_once: u32,
}

impl Calls {
    const FEW: Self = Self {
        before: 0,
        at_once: 1,
    };
}

async fn stopped_for_half_a_second(stage: &Stage) {
    stopped_for(stage, Calls::FEW, Duration::from_millis(500)).await;
}

async fn stopped_for_seconds_after_thousands_of_calls(stage: &Stage) {
    let many = Calls {
        before: 5_000,
        at_once: 4,
    };
    stopped_for(stage, many, Duration::from_secs(4)).await;
}

async fn stopped_for_longer(stage: &Stage) {
    stopped_for(stage, Calls::FEW, Duration::from_secs(11)).await;
}

async fn stopped_for(stage: &Stage, calls: Calls, away: Duration) {
    let server = stage.server();
    let (stops, goes_on) = (
        || server.pause().expect("stops"),
        || server.resume().expect("goes on"),
    );
    opens_and_closes(stage, &server, (calls, away), stops, goes_on).await;
}

/// A server that is gone refuses connections, and adapters leave it alone for a while after each.
async fn killed_and_restarted(stage: &Stage) {
    let server = stage.server();
    let (dies, is_back) = (|| server.kill(), || server.restart().expect("starts again"));
    let away = Duration::from_secs(6);
    opens_and_closes(stage, &server, (Calls::FEW, away), dies, is_back).await;
}

/// Whoever refuses a password is there: to leave it alone would help nobody, and hide what is wrong.
async fn wrong_password_does_not_open_it(stage: &Stage) {
    let server = stage.start(stage.builder().with_password("right"));
    let address = server.url_as("default", "wrong");
    let store = stage.client.store(&address, &layout(), PATIENT);
    let breaker = CircuitBreaker::new(store, Arc::new(WallClock), Arc::new(Chance));
    let (ann, gold) = (key("ann"), [plan("gold", "1/h burst 1000000")]);
    let (began, mut calls) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(1) || calls < 100 {
        let refused = breaker.try_acquire(&ann, &gold, Cost::ONE).await;
        let error = refused.expect_err("wrong password");
        assert!(!error.is_outage(), "{error:?}");
        assert_eq!(breaker.state(), BreakerState::Closed);
        calls += 1;
        sleep(Duration::from_millis(1)).await;
    }
}

async fn opens_and_closes(
    stage: &Stage,
    server: &RedisServer,
    (calls, away): (Calls, Duration),
    goes_away: impl Fn(),
    comes_back: impl Fn(),
) {
    let store = stage.client.store(&server.url(), &layout(), DEADLINE);
    let gold = plan("gold", "1/h burst 1000000");
    recovers(&store, &gold, PATIENT).await;
    let counted = Arc::new(Counted::of(store));
    let breaker = CircuitBreaker::new(counted.clone(), Arc::new(WallClock), Arc::new(Chance));
    let breaker = Arc::new(breaker);
    counted.is_behind(&breaker);
    healthy(&breaker, &gold, calls.before).await;
    let load = Load::begin(breaker.clone(), gold, calls.at_once);

    let crowd = Crowd::watch([server]);
    goes_away();
    let stopped = Instant::now();
    let opened = until(&breaker, BreakerState::Open).await;
    in_time("opened", stopped, opened, OPENS, &crowd).await;
    // Those that were under way when it opened have ended by then.
    sleep(2 * DEADLINE).await;
    counted.most.store(0, Ordering::Relaxed);
    sleep(away.saturating_sub(stopped.elapsed())).await;

    comes_back();
    let (crowd, returned) = (Crowd::watch([server]), Instant::now());
    let closed = until(&breaker, BreakerState::Closed).await;
    let most = counted.most.load(Ordering::Relaxed);
    assert!(most <= 1, "{most} probes at once");
    in_time("closed", returned, closed, CLOSES, &crowd).await;
    load.decided_by_store().await;
    load.end().await;
}

/// Calls so many times, some at a time, and then until the breaker is closed: a crowded machine answers late at times.
async fn healthy(breaker: &Arc<CircuitBreaker<Counted>>, gold: &Plan, calls: u32) {
    let store: Store = breaker.clone();
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let (store, gold) = (store.clone(), gold.clone());
            tokio::spawn(async move {
                for _ in 0..calls / 16 {
                    let _ = spend(&store, &key("ann"), &gold).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("every call in time");
    }
    let began = Instant::now();
    while breaker.state() != BreakerState::Closed {
        let _ = spend(&store, &key("ann"), gold).await;
        assert!(began.elapsed() < PATIENT, "a healthy store is left alone");
        sleep(EVERY).await;
    }
}

/// Checks that something took as long as is promised at most, and as long as the machine kept a
/// thread waiting meanwhile.
async fn in_time(what: &str, since: Instant, took: Duration, promised: Duration, crowd: &Crowd) {
    let waited = crowd.waited(since, since + took).await;
    eprintln!("{what} after {took:?}, {waited:?} of them waiting");
    let most = promised + waited;
    assert!(took <= most, "{what} after {took:?}, {waited:?} waiting");
}

/// Waits for a state of the breaker; returns how long that took.
async fn until(breaker: &CircuitBreaker<Counted>, state: BreakerState) -> Duration {
    let began = Instant::now();
    while breaker.state() != state && began.elapsed() < PATIENT {
        sleep(Duration::from_millis(1)).await;
    }
    began.elapsed()
}

/// Who decided requests, and when each began.
type Sources = Arc<Mutex<Vec<(Instant, Source)>>>;

/// Requests that come steadily to a limiter that fails open.
struct Load {
    stop: Arc<AtomicBool>,
    sources: Sources,
    task: JoinHandle<()>,
}

impl Load {
    fn begin(store: Store, gold: Plan, at_once: u32) -> Self {
        let name = [gold.name().clone()];
        let plans = InMemoryPlanRegistry::new([gold]).expect("one plan");
        let limiter = Arc::new(DefaultRateLimiter::new(Arc::new(plans), store));
        let (stop, sources) = (Arc::new(AtomicBool::new(false)), Sources::default());
        let (stopped, told) = (stop.clone(), sources.clone());
        let task = tokio::spawn(async move {
            let mut requests = Vec::new();
            let mut ticks = tokio::time::interval(EVERY);
            while !stopped.load(Ordering::Relaxed) {
                ticks.tick().await;
                for _ in 0..at_once {
                    let (limiter, name, told) = (limiter.clone(), name.clone(), told.clone());
                    requests.push(tokio::spawn(async move {
                        let began = Instant::now();
                        let decision = limiter.check(&key("bob"), &name, Cost::ONE).await;
                        let source = decision.expect("a decision").source();
                        lock(&told).push((began, source));
                    }));
                }
            }
            for request in requests {
                request.await.expect("every call in time");
            }
        });
        Self {
            stop,
            sources,
            task,
        }
    }

    /// Checks that from now on requests are decided by the store. A crowded machine may let a few of them pass.
    async fn decided_by_store(&self) {
        let from = Instant::now();
        sleep(CLOSES).await;
        let sources = lock(&self.sources);
        let since: Vec<_> = sources.iter().filter(|(began, _)| *began >= from).collect();
        let by_store = |(_, source): &&&(Instant, Source)| *source == Source::Store;
        let (decided, all) = (since.iter().filter(by_store).count(), since.len());
        assert!(all > 0 && decided * 10 >= all * 9, "{decided} of {all}");
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("no panic");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A store that knows how many calls the breaker before it let through at a time when it was not
/// closed.
struct Counted {
    store: Store,
    breaker: OnceLock<Weak<CircuitBreaker<Self>>>,
    probes: AtomicU32,
    most: AtomicU32,
}

impl Counted {
    fn of(store: Store) -> Self {
        Self {
            store,
            breaker: OnceLock::new(),
            probes: AtomicU32::new(0),
            most: AtomicU32::new(0),
        }
    }

    fn is_behind(&self, breaker: &Arc<CircuitBreaker<Self>>) {
        let set = self.breaker.set(Arc::downgrade(breaker));
        set.expect("behind one breaker");
    }

    async fn count<T>(&self, call: impl Future<Output = T>) -> T {
        let breaker = self.breaker.get().and_then(Weak::upgrade);
        let state = breaker.map(|breaker| breaker.state());
        if state == Some(BreakerState::Closed) {
            return call.await;
        }
        let probes = self.probes.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(probes, Ordering::Relaxed);
        let answer = call.await;
        self.probes.fetch_sub(1, Ordering::Relaxed);
        answer
    }
}

#[async_trait]
impl RateLimiterRepository for Counted {
    async fn try_acquire(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        self.count(self.store.try_acquire(key, plans, cost)).await
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        self.count(self.store.peek(key, plans, cost)).await
    }

    async fn refund(
        &self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
    ) -> Result<Verdict, StoreError> {
        self.count(self.store.refund(key, plans, refund)).await
    }

    async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        self.count(self.store.reset(key, plans)).await
    }
}

struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
        let micros = since.expect("after 1970").as_micros();
        Timestamp::from_micros(u64::try_from(micros).expect("before 2262")).expect("a moment")
    }
}

struct Chance;

impl RandomSource for Chance {
    fn next_u64(&self) -> u64 {
        fastrand::u64(..)
    }
}
