//! Servers that are set up wrongly, or hold what they should not: whoever sets nothing up hears of it, and the service can be made to
//! find it when it starts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use limiter_axum::{KeyFn, RateLimit, RateLimitLayer};
use limiter_core::{
    AbuseGuard, AbuseLimiter, AbusePolicy, BreakerState, CheckError, Cost, Decision,
    DefaultAbuseLimiter, DefaultRateLimiter, InMemoryPlanRegistry, Key, Observer, Plan,
    RateLimiter, Source, StoreError, Tier,
};
use limiter_lua::KeyLayout;
use limiter_sessions::{Nonce, SessionService};
use limiter_store_tests::{
    DEADLINE, PATIENT, Stage, faults_on_clients_and_servers, key, layout, plan, recovers_for,
};
use limiter_testkit::CapturedLog;
use limiter_testkit::abuse::AbuseModelStore;
use limiter_testkit::proxy::{Direction, FaultProxy, Toxic};
use limiter_testkit::rig::{PERMISSIONS, acl_user};
use tokio::time::sleep;

use crate::RECOVERY;

faults_on_clients_and_servers! {
    wrong_password_is_told
    missing_permission_is_told
    missing_permission_to_write_is_found_at_start
    wrong_password_is_found_at_start_though_it_takes_long_to_connect
    unknown_command_is_told_without_the_key
    foreign_value_is_told
    unknown_version_is_told
    server_that_is_away_is_told_and_that_it_is_back
}

const CALLER: &str = "203.0.113.9";
const PASSWORD: &str = "hunter2";

/// What an operator's metrics would count.
#[derive(Default)]
struct Kinds(Mutex<Vec<&'static str>>);

impl Observer for Kinds {
    fn decided(&self, _: &Decision) {}

    fn store_failed(&self, error: &StoreError) {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.push(error.kind());
    }

    fn breaker_changed(&self, _: BreakerState) {}
}

/// A limiter and what else asks the server at an address, with nothing set up but an observer.
struct Site {
    limiter: Arc<DefaultRateLimiter>,
    attempts: Arc<DefaultAbuseLimiter>,
    visitors: SessionService,
    kinds: Arc<Kinds>,
}

fn gold() -> Plan {
    plan("gold", "1/h burst 1000000")
}

fn login() -> AbusePolicy {
    let tier = Tier::new("temp", 10_000, Duration::from_secs(3600));
    let policy = AbusePolicy::builder("login").tier(tier).build();
    policy.expect("a policy")
}

fn caller() -> Key {
    key(CALLER)
}

impl Site {
    fn new(stage: &Stage, address: &str, layout: &KeyLayout) -> Self {
        Self::with_deadline(stage, address, layout, PATIENT)
    }

    fn with_deadline(stage: &Stage, address: &str, layout: &KeyLayout, deadline: Duration) -> Self {
        let kinds = Arc::new(Kinds::default());
        let plans = InMemoryPlanRegistry::new([gold()]).expect("one plan");
        let store = stage.client.store(address, layout, deadline);
        let limiter = DefaultRateLimiter::new(Arc::new(plans), store).with_observer(kinds.clone());
        let shared = stage.client.attempts(address, layout, deadline);
        let attempts = DefaultAbuseLimiter::new(shared, Arc::new(AbuseModelStore::new()));
        Self {
            limiter: Arc::new(limiter),
            attempts: Arc::new(attempts.with_observer(kinds.clone())),
            visitors: SessionService::on(stage.client.sessions(address, layout, deadline)),
            kinds,
        }
    }

    async fn check(&self) -> Result<Decision, CheckError> {
        let name = [gold().name().clone()];
        self.limiter.check(&caller(), &name, Cost::ONE).await
    }

    /// Asks ten times, in vain; checks that the one line about it has `words`, and that the observer got the class.
    async fn limiter_is_told(&self, words: &[&str]) {
        let log = CapturedLog::start();
        for _ in 0..10 {
            let error = self.check().await.expect_err("no decision");
            let told = matches!(error, CheckError::Store(StoreError::Misconfigured { .. }));
            assert!(told, "{error:?}");
        }
        check_lines(&log, words);
        let kinds = self.kinds.0.lock().expect("no panic").clone();
        assert_eq!(kinds, ["misconfigured"; 10]);
    }

    async fn attempts_are_told(&self, words: &[&str]) {
        let log = CapturedLog::start();
        for _ in 0..10 {
            let decision = self.attempts.record(&caller(), &login()).await;
            assert_eq!(decision.source(), Source::Fallback);
            let failure = decision.failure().expect("a failure");
            assert_eq!(failure.kind(), "misconfigured", "{failure:?}");
        }
        check_lines(&log, words);
    }

    async fn visitors_are_told(&self, words: &[&str]) {
        let log = CapturedLog::start();
        for nth in 0..10 {
            let nonce = Nonce::new(&format!("nonce-{nth}")).expect("a nonce");
            let verdict = self.visitors.verify_nonce(&caller(), &nonce).await;
            assert!(!verdict.is_accepted());
        }
        check_lines(&log, words);
    }

    /// Checks what a service finds that looks when it starts.
    async fn found_at_start(&self, words: &str) {
        let found = self.look_of_layer().await;
        let found = found.expect_err("a store that is set up wrongly");
        let found_by_guard = self.look_of_guard().await.expect_err("the same");
        for text in [format!("{found:?}"), format!("{found_by_guard:?}")] {
            assert!(text.contains(words) && !text.contains(PASSWORD), "{text}");
        }
    }

    async fn look_of_layer(&self) -> Result<(), CheckError> {
        let everybody = KeyFn::new("key", |_| Key::new("everybody").ok());
        let layer = RateLimitLayer::new(self.limiter.clone(), everybody, RateLimit::plan("gold"));
        layer.expect("a layer").verify().await
    }

    async fn look_of_guard(&self) -> Result<(), Arc<StoreError>> {
        let guard = AbuseGuard::for_sign_in(self.attempts.clone(), login());
        guard.verify().await
    }
}

/// Checks that there is one line, at the level of errors, with all of `words`; and with nothing that must not be logged.
fn check_lines(log: &CapturedLog, words: &[&str]) {
    let lines = log.lines();
    let [line] = &lines[..] else {
        panic!("not one line: {lines:?}")
    };
    assert!(line.starts_with("ERROR store is misconfigured: "), "{line}");
    for word in words {
        assert!(line.contains(word), "{word} is not in {line}");
    }
    for secret in [PASSWORD, "secret", CALLER, "nonce-0"] {
        assert!(!line.contains(secret), "{secret} is in {line}");
    }
}

async fn wrong_password_is_told(stage: &Stage) {
    let server = stage.start(stage.builder().with_password("right"));
    let (address, layout) = (server.url_as("default", PASSWORD), layout());
    let site = Site::new(stage, &address, &layout);
    let advice = "give the user and password that the server knows";
    site.limiter_is_told(&[advice, "get an error"]).await;
    site.attempts_are_told(&[advice, "local store"]).await;
    site.visitors_are_told(&[advice, "not accepted"]).await;
    site.found_at_start(advice).await;
    server.config_set("requirepass", PASSWORD).expect("set");
    let store = stage.client.store(&address, &layout, PATIENT);
    recovers_for(&store, &caller(), &gold(), RECOVERY).await;
}

async fn missing_permission_is_told(stage: &Stage) {
    let user = acl_user("poor", "*", "+@connection +ping +hello +client");
    let server = stage.start(stage.builder().with_acl_user(user));
    let site = Site::new(stage, &server.url_as("poor", "secret"), &layout());
    let advice = "grant the user what the README's ACL line lists";
    site.limiter_is_told(&[advice]).await;
    site.attempts_are_told(&[advice]).await;
    site.visitors_are_told(&[advice]).await;
    site.found_at_start(advice).await;
    let mut grant = vec!["ACL", "SETUSER", "poor"];
    grant.extend(PERMISSIONS.split(' '));
    server.command(&grant).expect("set");
    let began = Instant::now();
    while site.check().await.is_err() {
        assert!(began.elapsed() < RECOVERY, "no decision");
    }
}

/// Whoever may read but not write is found as well; once all is granted nothing is, and nothing is left of the look.
async fn missing_permission_to_write_is_found_at_start(stage: &Stage) {
    let server = stage.start(
        stage
            .builder()
            .with_acl_user(acl_user("poor", "*", PERMISSIONS)),
    );
    let site = Site::new(stage, &server.url_as("poor", "secret"), &layout());
    // Each word, and whether limits and attempts need it.
    for (word, by_layer, by_guard) in [
        ("hset", true, true),
        ("pexpire", true, true),
        ("hdel", true, false),
        ("del", false, true),
    ] {
        let set = |sign: &str| {
            let rule = format!("{sign}{word}");
            server
                .command(&["ACL", "SETUSER", "poor", &rule])
                .expect("set");
        };
        set("-");
        let (layer, guard) = (site.look_of_layer().await, site.look_of_guard().await);
        assert_eq!(layer.is_err(), by_layer, "without {word}: {layer:?}");
        assert_eq!(guard.is_err(), by_guard, "without {word}: {guard:?}");
        let told = format!("{layer:?} {guard:?}");
        assert!(told.contains("the README's ACL line"), "{told}");
        set("+");
    }
    assert!(site.look_of_layer().await.is_ok());
    assert!(site.look_of_guard().await.is_ok());
    assert!(server.keys().expect("keys").is_empty(), "something is left");
}

/// With the usual deadline, in which no connection is made.
async fn wrong_password_is_found_at_start_though_it_takes_long_to_connect(stage: &Stage) {
    let server = stage.start(stage.builder().with_password("right"));
    let proxy = FaultProxy::start(server.addr()).await.expect("a proxy");
    proxy.add(
        Direction::Replies,
        Toxic::Latency {
            delay: 3 * DEADLINE,
            jitter: Duration::ZERO,
        },
    );
    let address = format!("redis://:{PASSWORD}@{}", proxy.addr());
    let site = Site::with_deadline(stage, &address, &layout(), DEADLINE);
    let advice = "give the user and password that the server knows";
    site.found_at_start(advice).await;
}

/// Servers repeat the arguments of a command that they do not know, and the key is one of them.
async fn unknown_command_is_told_without_the_key(stage: &Stage) {
    let renamed = stage.builder().with_config("rename-command EVALSHA ''");
    let site = Site::new(stage, &stage.start(renamed).url(), &layout());
    let words = ["with scripting", "EVALSHA"];
    site.limiter_is_told(&words).await;
    site.attempts_are_told(&words).await;
    site.found_at_start("with scripting").await;
}

async fn foreign_value_is_told(stage: &Stage) {
    let (server, layout) = (stage.server(), layout());
    for name in [
        layout.name(&caller()),
        layout.name_under(&caller(), login().name()),
    ] {
        // Of neither type that is expected, and gone some time.
        let push = [&b"LPUSH"[..], &name, b"mail"];
        server.command(&push).expect("a foreign value");
        let expire = [&b"EXPIRE"[..], &name, b"3600"];
        server.command(&expire).expect("a time to live");
    }
    let site = Site::new(stage, &server.url(), &layout);
    let advice = "take a prefix that nothing else uses";
    site.limiter_is_told(&[advice]).await;
    site.attempts_are_told(&[advice]).await;
}

async fn unknown_version_is_told(stage: &Stage) {
    let (server, layout) = (stage.server(), layout());
    let name = layout.name(&caller());
    let future = [&b"HSET"[..], &name, b"gold", b"\x91whatever"];
    server.command(&future).expect("a state of the future");
    let expire = [&b"EXPIRE"[..], &name, b"3600"];
    server.command(&expire).expect("a time to live");
    let name = layout.name_under(&caller(), login().name());
    let future = [&b"HSET"[..], &name, b"state", b"\x91whatever"];
    server.command(&future).expect("a state of the future");
    let expire = [&b"EXPIRE"[..], &name, b"3600"];
    server.command(&expire).expect("a time to live");
    let site = Site::new(stage, &server.url(), &layout);
    let words = ["unknown version 9", "let nothing but the limiter write"];
    site.limiter_is_told(&words).await;
    site.attempts_are_told(&words).await;
}

/// Away is not misconfigured: requests pass, which is said once, and so is that the store decides again.
async fn server_that_is_away_is_told_and_that_it_is_back(stage: &Stage) {
    let (server, proxy) = stage.proxied().await;
    proxy.refuse_connections().await;
    let site = Site::new(stage, &server.url_at(proxy.addr()), &layout());
    let log = CapturedLog::start();
    for _ in 0..10 {
        let decision = site.check().await.expect("a decision");
        assert_eq!(decision.source(), Source::FailOpen);
    }
    let lines = log.lines();
    let [line] = &lines[..] else {
        panic!("not one line: {lines:?}")
    };
    assert!(line.starts_with("ERROR store is unavailable: "), "{line}");
    assert!(line.contains("pass unlimited (fail_open)"), "{line}");
    proxy.accept_connections().await.expect("listens again");
    let began = Instant::now();
    while log.lines().len() < 2 {
        assert!(site.check().await.is_ok());
        assert!(began.elapsed() < 2 * RECOVERY, "{:?}", log.lines());
        sleep(Duration::from_millis(20)).await;
    }
    let lines = log.lines();
    assert!(
        lines[1].starts_with("INFO store answers again"),
        "{lines:?}"
    );
}
