//! A circuit breaker with its defaults before a real server that is stopped and goes on, under load: it opens in time, closes in time,
//! and meanwhile one call at a time reaches the store.
#![cfg(test)]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use limiter_core::{
    BreakerState, CircuitBreaker, Clock, Cost, DefaultRateLimiter, InMemoryPlanRegistry, Key, Plan,
    RandomSource, RateLimiter, RateLimiterRepository, Refund, Source, StoreError, Timestamp,
    Verdict,
};
use limiter_store_tests::{
    DEADLINE, PATIENT, Stage, Store, faults_on_clients, key, layout, plan, recovers, spend,
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
/// A hundred calls a second.
const EVERY: Duration = Duration::from_millis(10);

async fn stopped_for_half_a_second(stage: &Stage) {
    stopped_for(stage, 0, Duration::from_millis(500)).await;
}

async fn stopped_for_seconds_after_thousands_of_calls(stage: &Stage) {
    stopped_for(stage, 5_000, Duration::from_secs(4)).await;
}

async fn stopped_for_longer(stage: &Stage) {
    stopped_for(stage, 0, Duration::from_secs(11)).await;
}

async fn stopped_for(stage: &Stage, calls_before: u32, away: Duration) {
    let server = stage.server();
    let (stops, goes_on) = (
        || server.pause().expect("stops"),
        || server.resume().expect("goes on"),
    );
    opens_and_closes(stage, &server, (calls_before, away), stops, goes_on).await;
}

/// A server that is gone refuses connections, and adapters leave it alone for a while after each.
async fn killed_and_restarted(stage: &Stage) {
    let server = stage.server();
    let (dies, is_back) = (|| server.kill(), || server.restart().expect("starts again"));
    let away = Duration::from_secs(6);
    opens_and_closes(stage, &server, (0, away), dies, is_back).await;
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
    (calls_before, away): (u32, Duration),
    goes_away: impl Fn(),
    comes_back: impl Fn(),
) {
    let store = stage.client.store(&server.url(), &layout(), DEADLINE);
    let gold = plan("gold", "1/h burst 1000000");
    recovers(&store, &gold, PATIENT).await;
    let counted = Arc::new(Counted::of(store));
    let breaker = CircuitBreaker::new(counted.clone(), Arc::new(WallClock), Arc::new(Chance));
    let breaker = Arc::new(breaker);
    healthy(&breaker, &gold, calls_before).await;
    let load = Load::begin(breaker.clone(), gold);

    let crowd = Crowd::watch();
    goes_away();
    let stopped = Instant::now();
    let opened = until(&breaker, BreakerState::Open).await;
    assert!(opened <= crowd.grants(OPENS), "it opened after {opened:?}");
    // Those that were under way when it opened have ended by then.
    sleep(2 * DEADLINE).await;
    counted.most.store(0, Ordering::Relaxed);
    sleep(away.saturating_sub(stopped.elapsed())).await;
    let most = counted.most.load(Ordering::Relaxed);
    assert!(most <= 1, "{most} probes at once");

    comes_back();
    let crowd = Crowd::watch();
    let closed = until(&breaker, BreakerState::Closed).await;
    assert!(closed <= crowd.grants(CLOSES), "it closed after {closed:?}");
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

/// Watches how late a thread comes to its turn. What is promised is promised of a machine on which calls are answered before they
/// count as slow: on a crowded one the breaker does what it should if it takes longer.
struct Crowd {
    over: Arc<AtomicBool>,
    longest_us: Arc<AtomicU32>,
}

impl Crowd {
    fn watch() -> Self {
        let watched = Self {
            over: Arc::default(),
            longest_us: Arc::default(),
        };
        let (over, longest_us) = (watched.over.clone(), watched.longest_us.clone());
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let began = Instant::now();
                std::thread::sleep(Duration::from_millis(1));
                let took_us = u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX);
                longest_us.fetch_max(took_us, Ordering::Relaxed);
            }
        });
        watched
    }

    /// Returns how long something may take that was promised to take so long.
    fn grants(&self, promised: Duration) -> Duration {
        let longest = Duration::from_micros(self.longest_us.load(Ordering::Relaxed).into());
        if longest < Duration::from_millis(10) {
            promised
        } else {
            3 * promised
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Requests that come steadily to a limiter that fails open.
struct Load {
    stop: Arc<AtomicBool>,
    sources: Sources,
    task: JoinHandle<()>,
}

impl Load {
    fn begin(store: Store, gold: Plan) -> Self {
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
                let (limiter, name, told) = (limiter.clone(), name.clone(), Arc::clone(&told));
                requests.push(tokio::spawn(async move {
                    let began = Instant::now();
                    let decision = limiter.check(&key("bob"), &name, Cost::ONE).await;
                    let source = decision.expect("a decision").source();
                    lock(&told).push((began, source));
                }));
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

/// A store that knows how many calls it had at a time.
struct Counted {
    store: Store,
    running: AtomicU32,
    most: AtomicU32,
}

impl Counted {
    fn of(store: Store) -> Self {
        Self {
            store,
            running: AtomicU32::new(0),
            most: AtomicU32::new(0),
        }
    }

    async fn count<T>(&self, call: impl Future<Output = T>) -> T {
        let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(running, Ordering::Relaxed);
        let answer = call.await;
        self.running.fetch_sub(1, Ordering::Relaxed);
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
