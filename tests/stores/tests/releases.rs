//! Two releases side by side on one store, the newer one with another layout: as while a release rolls out. Neither reads what the
//! other wrote, each admits what the plan says, and nobody fails open.
#![cfg(test)]

use std::sync::Arc;

use limiter_core::{
    AbusePolicy, Cost, DefaultRateLimiter, InMemoryPlanRegistry, Key, RateLimiter, Source, Tier,
    hours,
};
use limiter_lua::{KeyLayout, SessionNames};
use limiter_sessions::{
    Anomaly, Label, Locator, Nonce, NonceUse, Retention, Severity, TagKey, Visit,
};
use limiter_store_tests::{PATIENT, Stage, bucket, ends_by, faults_on_clients, key, layout};
use limiter_testkit::server::{RedisServer, Reply};

faults_on_clients! {
    two_releases_under_load_admit_twice_the_limit_at_most_and_none_fails_open
    attempts_and_visitors_of_two_releases_are_kept_apart
}

const LIMIT: u32 = 300;

/// How the next release counts: in a form of its own, marked with its version. As this one, it refuses what it does not know.
const NEXT: &str = "
local state = redis.call('HGET', KEYS[1], 'gold')
if state and string.byte(state) ~= 0x26 then
  return redis.error_reply('LIMITERSTATE unknown version ' .. math.floor(string.byte(state) / 16))
end
local used = state and tonumber(state:sub(2)) or 0
if used == tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'gold', string.char(0x26) .. used + 1)
redis.call('PEXPIRE', KEYS[1], 3600000)
return 1";

/// Spends in the next release, so often; returns how often it admitted.
fn spend_in_the_next_release(server: &RedisServer, name: &[u8], calls: u32) -> u32 {
    let limit = LIMIT.to_string();
    let spend: [&[u8]; 5] = [b"EVAL", NEXT.as_bytes(), b"1", name, limit.as_bytes()];
    let admitted = (0..calls).filter(|_| {
        let said = server.command(&spend).expect("an answer").int();
        said.expect("no error of the next release") == 1
    });
    u32::try_from(admitted.count()).expect("a few")
}

/// Spends in this release, so often; returns how often it admitted.
async fn spend_here(limiter: Arc<DefaultRateLimiter>, user: Key, calls: u32) -> u32 {
    let gold = [bucket(LIMIT).name().clone()];
    let mut admitted = 0;
    for _ in 0..calls {
        let decision = limiter.check(&user, &gold, Cost::ONE).await;
        let decision = decision.expect("a decision");
        assert_eq!(decision.source(), Source::Store, "failed open");
        admitted += u32::from(decision.is_allowed());
    }
    admitted
}

async fn two_releases_under_load_admit_twice_the_limit_at_most_and_none_fails_open(stage: &Stage) {
    const CALLERS: u32 = 8;
    let (server, layout, ann) = (stage.server(), layout(), key("ann"));
    let store = stage.client.store(&server.url(), &layout, PATIENT);
    let plans = InMemoryPlanRegistry::new([bucket(LIMIT)]).expect("a registry");
    let limiter = Arc::new(DefaultRateLimiter::new(Arc::new(plans), store));
    let next = layout.with_version(KeyLayout::VERSION + 1).name(&ann);
    let (mut here, mut there) = (Vec::new(), Vec::new());
    for _ in 0..CALLERS {
        here.push(tokio::spawn(spend_here(
            limiter.clone(),
            ann.clone(),
            LIMIT / 4,
        )));
        let (server, next) = (server.clone(), next.clone());
        there.push(tokio::task::spawn_blocking(move || {
            spend_in_the_next_release(&server, &next, LIMIT / 4)
        }));
    }
    let (mut admitted_here, mut admitted_there) = (0, 0);
    for (here, there) in here.into_iter().zip(there) {
        admitted_here += here.await.expect("no panic");
        admitted_there += there.await.expect("no panic");
    }
    assert_eq!((admitted_here, admitted_there), (LIMIT, LIMIT));
}

/// What the next release keeps of attempts and visitors is of another type, so that a look at it is an error.
async fn attempts_and_visitors_of_two_releases_are_kept_apart(stage: &Stage) {
    let (server, layout, ann) = (stage.server(), layout(), key("ann"));
    let tier = Tier::new("temp", 2, hours(1));
    let policy = AbusePolicy::builder("login").tier(tier).build();
    let policy = policy.expect("a policy");
    let (odd, nonce) = (Label::new("odd"), Nonce::new("n-1"));
    let (odd, nonce) = (odd.expect("a label"), nonce.expect("a nonce"));
    let fingerprint = "ab".repeat(32).parse().expect("a fingerprint");
    let visit = Visit::new(fingerprint, "203.0.113.9".parse().expect("an address"));

    let next = layout.clone().with_version(KeyLayout::VERSION + 1);
    let (names, tags) = (SessionNames::new(&next), TagKey::new([7; 32]));
    let tags = tags.expect("a secret");
    let place: Locator = tags.visit(&visit).locator;
    let mut written = vec![
        next.name_under(&ann, policy.name()),
        names.nonce(&tags, &ann, &nonce),
        names.feed(Severity::High),
        names.cluster(&odd),
    ];
    written.extend(names.session(&place));
    written.extend(names.address(&tags, visit.ip));
    for name in &written {
        let command: [&[u8]; 5] = [b"SET", name, b"\x26of the next release", b"EX", b"3600"];
        server.command(&command).expect("set");
    }

    let attempts = stage.client.attempts(&server.url(), &layout, PATIENT);
    for blocked in [false, true] {
        let said = ends_by(PATIENT, attempts.record(&ann, &policy)).await;
        assert_eq!(said.expect("an answer").block.is_some(), blocked);
    }
    let visitors = stage.client.sessions(&server.url(), &layout, PATIENT);
    for is_new in [true, false] {
        let seen = visitors.observe(&visit, Retention::HOUR).await;
        assert_eq!(seen.expect("an answer").is_new, is_new);
    }
    let first = visitors.consume(&ann, &nonce, Retention::HOUR).await;
    assert_eq!(first.expect("an answer"), NonceUse::First);
    let anomaly = Anomaly::new(Severity::High, odd.clone());
    visitors.push(&anomaly).await.expect("taken");
    let joined = visitors.join(&odd, &fingerprint, Retention::HOUR);
    joined.await.expect("taken");
    assert_eq!(
        visitors.members(&odd).await.expect("members"),
        [fingerprint]
    );
    for name in &written {
        let kept = server.command(&[&b"GET"[..], name]).expect("get");
        assert_eq!(kept, Reply::Bulk(b"\x26of the next release".to_vec()));
    }
}
