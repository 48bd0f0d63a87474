//! What one call makes a server write, counted in its append-only file: 4 KB at most for each plan or policy, names of keys
//! included, however hard a key is hammered. A denied call writes nothing, but for what a suppressing window observes.
#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use limiter_core::{
    AbusePolicy, AbuseRepository, Cost, Escalation, FixedWindow, Key, Limit, Plan,
    RateLimiterRepository, Refund, SlidingWindow, SuppressingWindow, Tier, TokenBucket, days,
    hours,
};
use limiter_lua::KeyLayout;
use limiter_sessions::{
    Anomaly, BotProbability, Label, Nonce, Retention, SessionPorts, Severity, Visit,
};
use limiter_store_tests::{Client, PATIENT, Stage, faults_on_clients_and_servers};
use limiter_testkit::ManualClock;
use limiter_testkit::server::RedisServer;

faults_on_clients_and_servers! {
    hammered_windows_write_4_kb_a_call_at_most
    windows_whose_plan_changes_write_4_kb_a_call_at_most
    fixed_windows_in_turn_write_4_kb_a_call_at_most
    refunds_of_full_windows_write_4_kb_a_call_at_most
    chains_write_4_kb_a_plan_at_most
    hammered_attempts_write_4_kb_a_call_at_most
    visitors_write_4_kb_a_call_at_most
    denied_calls_write_nothing
}

const MOST: u64 = 4096;
const MOST_SUB_BUCKETS: u32 = 256;
const YEAR: Duration = days(366);

/// The longest prefix, and the keys with the longest names.
fn layout() -> KeyLayout {
    KeyLayout::new("p".repeat(64)).expect("a prefix")
}

fn keys() -> [Key; 2] {
    [[b':'; 114].as_slice(), &[0xff; 255]].map(|bytes| Key::new(bytes).expect("a key"))
}

/// The longest name.
fn plan_of(limit: Limit) -> Plan {
    Plan::new("n".repeat(64), limit).expect("a plan")
}

/// A store, its clock, and how much its server has written.
struct Desk<S: ?Sized> {
    server: Arc<RedisServer>,
    clock: ManualClock,
    store: Arc<S>,
}

impl<S: ?Sized> Desk<S> {
    fn new(stage: &Stage, make: impl FnOnce(Client, &str, ManualClock) -> Arc<S>) -> Self {
        let server = stage
            .builder()
            .with_config("appendonly yes")
            .with_config("auto-aof-rewrite-percentage 0")
            // Else writes are put off now and then, and come together.
            .with_config("appendfsync no");
        let server = stage.start(server);
        let clock = ManualClock::new();
        let store = make(stage.client, &server.url(), clock.clone());
        Self {
            server,
            clock,
            store,
        }
    }

    fn written(&self) -> u64 {
        let info = self.server.info("persistence").expect("INFO");
        info["aof_current_size"].parse().expect("a size")
    }

    /// Returns how much a call has made the server write.
    async fn writes<T>(&self, call: impl Future<Output = T>) -> (T, u64) {
        let before = self.written();
        let said = call.await;
        (said, self.written() - before)
    }
}

fn limits_desk(stage: &Stage) -> Desk<dyn RateLimiterRepository> {
    Desk::new(stage, |client, address, clock| {
        client.store_by(clock, address, &layout(), PATIENT)
    })
}

impl Desk<dyn RateLimiterRepository> {
    /// Asks for a unit; returns whether it was admitted, and what that wrote.
    async fn spend(&self, key: &Key, plans: &[Plan]) -> (bool, u64) {
        let call = self.store.try_acquire(key, plans, Cost::ONE);
        let (said, bytes) = self.writes(call).await;
        (said.expect("an answer").admitted, bytes)
    }

    /// Hammers a key under a window that has room for `parts` sub-buckets, until all of them are there; returns the most that a
    /// call wrote.
    async fn hammer(&self, key: &Key, plan: &Plan, parts: u32) -> u64 {
        let mut most = 0;
        for _ in 0..parts + 20 {
            let (_, bytes) = self.spend(key, std::slice::from_ref(plan)).await;
            most = most.max(bytes);
            self.clock.advance(plan.limit().window() / parts);
        }
        most
    }
}

/// The finest sub-buckets that a window may have.
fn finest<T>(window: Duration, make: impl Fn(Duration) -> T) -> (Limit, u32)
where
    Limit: TryFrom<T>,
{
    let parts = (1..=4096_u32).rev();
    let micros = u64::try_from(window.as_micros()).expect("a period");
    let mut limits = parts.filter_map(|parts| {
        let every = Duration::from_micros(micros.div_ceil(parts.into()));
        Some((Limit::try_from(make(every)).ok()?, parts))
    });
    limits.next().expect("a granularity")
}

fn suppressing(units: u32, window: Duration) -> (Limit, u32) {
    finest(window, |every| {
        let asked = SuppressingWindow::new(units, window).with_hard_limit(1_000_000_000);
        asked.with_granularity(every)
    })
}

fn sliding(units: u32, window: Duration) -> (Limit, u32) {
    finest(window, |every| {
        SlidingWindow::new(units, window).with_granularity(every)
    })
}

async fn hammered_windows_write_4_kb_a_call_at_most(stage: &Stage) {
    let desk = limits_desk(stage);
    let limits = [
        suppressing(1, YEAR),
        suppressing(500_000_000, YEAR),
        sliding(1_000_000_000, YEAR),
        // Sub-buckets of few units need not be few by themselves.
        sliding(300, YEAR),
        sliding(256, YEAR),
    ];
    for key in keys() {
        for (limit, parts) in limits {
            assert!(parts >= MOST_SUB_BUCKETS, "{limit} has {parts}");
            let plan = plan_of(limit);
            let most = desk.hammer(&key, &plan, parts.min(1000)).await;
            assert!(most <= MOST, "{most} bytes under {limit}");
            // It was a full one.
            assert!(most > 2816, "{most} bytes under {limit}");
            desk.store.reset(&key, &[plan]).await.expect("forgotten");
        }
    }
}

/// The window gets shorter and shorter, each time when it is full; and two releases that have other windows take turns.
async fn windows_whose_plan_changes_write_4_kb_a_call_at_most(stage: &Stage) {
    let desk = limits_desk(stage);
    let [_, key] = keys();
    let mut window = hours(64);
    for _ in 0..4 {
        let (limit, parts) = suppressing(1, window);
        let plan = plan_of(limit);
        for _ in 0..parts.min(1000) - 1 {
            let (_, bytes) = desk.spend(&key, std::slice::from_ref(&plan)).await;
            assert!(bytes <= MOST, "{bytes} bytes under {limit}");
            desk.clock.advance(window / parts);
        }
        window /= 2;
    }
    let plans = [hours(64), hours(8)].map(|window| plan_of(suppressing(1, window).0));
    for _ in 0..600 {
        for plan in &plans {
            let (_, bytes) = desk.spend(&key, std::slice::from_ref(plan)).await;
            assert!(bytes <= MOST, "{bytes} bytes under {}", plan.limit());
        }
        desk.clock.advance(hours(8) / 256);
    }
}

/// More windows of different lengths than are kept.
async fn fixed_windows_in_turn_write_4_kb_a_call_at_most(stage: &Stage) {
    let desk = limits_desk(stage);
    let [_, key] = keys();
    let plans = (0..6_u32).rev().map(|nth| {
        let window = Duration::from_millis(3_u64.pow(nth));
        plan_of(Limit::try_from(FixedWindow::new(1_000_000_000, window)).expect("a limit"))
    });
    let plans: Vec<_> = plans.collect();
    for _ in 0..300 {
        for plan in &plans {
            let (admitted, bytes) = desk.spend(&key, std::slice::from_ref(plan)).await;
            assert!(
                admitted && bytes <= MOST,
                "{bytes} bytes under {}",
                plan.limit()
            );
        }
        desk.clock.advance(Duration::from_millis(1));
    }
}

/// A part of each of the charges of a window that is full is given back, the oldest first, and then the rest.
async fn refunds_of_full_windows_write_4_kb_a_call_at_most(stage: &Stage) {
    let desk = limits_desk(stage);
    let [_, key] = keys();
    let limits = [sliding(1_000_000_000, YEAR), suppressing(500_000_000, YEAR)];
    for (limit, parts) in limits {
        let (plan, cost) = ([plan_of(limit)], Cost::new(2).expect("a cost"));
        let mut charges = Vec::new();
        for _ in 0..parts.min(MOST_SUB_BUCKETS) - 1 {
            let said = desk.store.try_acquire(&key, &plan, cost).await;
            charges.push(Refund::of(&said.expect("an answer"), cost));
            desk.clock.advance(plan[0].limit().window() / parts);
        }
        let mut most = 0;
        for given_back in 0..2 {
            for charge in &charges {
                let part = charge.clone().part(given_back, Cost::ONE);
                let (said, bytes) = desk.writes(desk.store.refund(&key, &plan, &part)).await;
                assert!(!said.expect("an answer").plans.is_empty());
                assert!(bytes <= MOST, "{bytes} bytes under {limit}");
                most = most.max(bytes);
            }
        }
        // It was a full one.
        assert!(most > 2700, "{most} bytes under {limit}");
    }
}

async fn chains_write_4_kb_a_plan_at_most(stage: &Stage) {
    let desk = limits_desk(stage);
    let [_, key] = keys();
    let (limit, parts) = suppressing(1, YEAR);
    let name = |nth: u32| format!("{}{nth:02}", "n".repeat(62));
    let plans: Vec<_> = (0..16)
        .map(|nth| Plan::new(name(nth), limit).expect("a plan"))
        .collect();
    for _ in 0..parts.min(1000) + 10 {
        let (_, bytes) = desk.spend(&key, &plans).await;
        assert!(bytes <= 16 * MOST, "{bytes} bytes");
        desk.clock.advance(YEAR / parts);
    }
}

async fn denied_calls_write_nothing(stage: &Stage) {
    let desk = limits_desk(stage);
    let [key, _] = keys();
    let limits = [
        Limit::try_from(TokenBucket::new(1, days(1))),
        Limit::try_from(TokenBucket::new(1_000_003, days(1)).with_capacity(1)),
        Limit::try_from(SlidingWindow::new(1, days(1))),
        Limit::try_from(FixedWindow::new(1, days(1))),
    ];
    for limit in limits {
        let plan = [plan_of(limit.expect("a limit"))];
        let (admitted, bytes) = desk.spend(&key, &plan).await;
        assert!(admitted && bytes > 0);
        for _ in 0..3 {
            assert_eq!(desk.spend(&key, &plan).await, (false, 0));
        }
        desk.store.reset(&key, &plan).await.expect("forgotten");
    }
}

/// The largest policy: the longest names, and as many attempts as a key ever keeps.
fn policy() -> AbusePolicy {
    let tier = |nth: u32| {
        let name = format!("{}{nth}", "t".repeat(63));
        Tier::new(name, 2500 * nth, YEAR).blocking_for(days(nth))
    };
    (1..=4)
        .fold(AbusePolicy::builder("l".repeat(64)), |policy, nth| {
            policy.tier(tier(nth))
        })
        .escalating(Escalation::doubling(YEAR, YEAR))
        .build()
        .expect("a policy")
}

async fn hammered_attempts_write_4_kb_a_call_at_most(stage: &Stage) {
    const ATTEMPTS: u32 = 10_200;
    let desk: Desk<dyn AbuseRepository> = Desk::new(stage, |client, address, clock| {
        client.attempts_by(clock, address, &layout(), PATIENT)
    });
    let (policy, [_, key]) = (policy(), keys());
    let record = async || {
        let (said, bytes) = desk.writes(desk.store.record(&key, &policy)).await;
        assert!(bytes <= MOST, "{bytes} bytes");
        said.expect("an answer")
    };
    for _ in 0..ATTEMPTS {
        let _ = record().await;
        desk.clock.advance(Duration::from_millis(1));
    }
    assert_eq!(record().await.counts[3], 10_000);
    // All but the newest leave at once.
    desk.clock.advance(YEAR - Duration::from_millis(200));
    assert_eq!(record().await.counts[3], 201);
    for _ in 0..ATTEMPTS {
        let _ = record().await;
    }
    let forgiven = desk.writes(desk.store.forgive(&key, &policy)).await;
    forgiven.0.expect("an answer");
    assert!(forgiven.1 <= MOST, "{} bytes", forgiven.1);
    assert_eq!(record().await.counts[3], 1);
    let lifted = desk.writes(desk.store.unblock(&key, &policy)).await;
    assert!(lifted.0.expect("an answer").is_some());
    assert!(lifted.1 <= MOST, "{} bytes", lifted.1);
}

/// Everything that can be told of a visitor, and of as many sessions of one fingerprint as are listed, and more.
async fn visitors_write_4_kb_a_call_at_most(stage: &Stage) {
    let desk: Desk<dyn SessionPorts> = Desk::new(stage, |client, address, _| {
        client.sessions(address, &layout(), PATIENT)
    });
    let fingerprint = "ab".repeat(32).parse().expect("a fingerprint");
    let visit_from = |nth: u16| {
        let ip = format!("2001:db8:{nth:x}::1").parse().expect("an address");
        Visit::new(fingerprint, ip)
            .with_bot_probability(BotProbability::from_fraction(0.123_456).expect("a part"))
            .with_country("DE".parse().expect("a country"))
    };
    for nth in (0..1100).chain(0..3) {
        let visit = visit_from(nth);
        let (seen, bytes) = desk
            .writes(desk.store.observe(&visit, Retention::HOUR))
            .await;
        let id = seen.expect("an answer").session.id;
        assert!(bytes <= MOST, "{bytes} bytes of a visit");
        if nth < 3 {
            let (touched, bytes) = desk.writes(desk.store.touch(&id, Retention::HOUR)).await;
            assert!(touched.expect("an answer").is_some() && bytes <= MOST);
            let (ended, bytes) = desk.writes(desk.store.end(&id)).await;
            assert!(ended.expect("an answer") && bytes <= MOST);
        }
    }
    let label = Label::new(&"l".repeat(64)).expect("a label");
    let anomaly = Anomaly::new(Severity::High, label.clone()).with_note(&"n".repeat(200));
    let (pushed, bytes) = desk.writes(desk.store.push(&anomaly)).await;
    pushed.expect("taken");
    assert!(bytes <= MOST, "{bytes} bytes of an anomaly");
    let joins = desk.store.join(&label, &fingerprint, Retention::HOUR);
    let (joined, bytes) = desk.writes(joins).await;
    joined.expect("taken");
    assert!(bytes <= MOST, "{bytes} bytes of a member");
    let nonce = Nonce::new(&"n".repeat(64)).expect("a nonce");
    let [_, scope] = keys();
    let uses = desk.store.consume(&scope, &nonce, Retention::HOUR);
    let (used, bytes) = desk.writes(uses).await;
    let _ = used.expect("an answer");
    assert!(bytes <= MOST, "{bytes} bytes of a nonce");
}
