//! Attempts in chunks: random histories of hammered keys on a real server, each answer compared with that of the math, and what is
//! stored with what should be. The laws do the same with few attempts; here they fill several chunks, which are opened, closed and
//! dropped. A failure names the seed; `LIMITER_SEED` replays it.
#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use limiter_core::{AbusePolicy, AbuseRepository, Clock, Tier, abuse};
use limiter_lua::{KeyLayout, StoredAttempts};
use limiter_store_tests::{Client, PATIENT, key, layout, on_clients_and_servers};
use limiter_testkit::ManualClock;
use limiter_testkit::server::{Flavour, RedisServer, Reply};

on_clients_and_servers! {
    prop_attempts_in_chunks_agree_with_the_math
}

const STEPS: u32 = 60;
const HISTORIES: u32 = 12;

/// A policy with thresholds about the size of a chunk and its multiples.
fn policy(rng: &mut Rng) -> AbusePolicy {
    let around = [1, 5, 70, 71, 72, 73, 74, 143, 144, 145, 217, 400];
    let mut thresholds: Vec<u32> = (0..rng.usize(1..=4))
        .map(|_| around[rng.usize(..around.len())])
        .collect();
    thresholds.sort_unstable();
    thresholds.dedup();
    let mut window = Duration::from_millis(100);
    let mut policy = AbusePolicy::builder("login");
    for (nth, threshold) in thresholds.into_iter().enumerate() {
        window *= rng.u32(1..=5);
        let block = Duration::from_millis(u64::try_from(nth).expect("few") + 1);
        let tier = Tier::new(format!("tier{nth}"), threshold, window);
        policy = policy.tier(tier.blocking_for(block));
    }
    policy.build().expect("a policy")
}

fn stored(server: &RedisServer, layout: &KeyLayout, policy: &AbusePolicy) -> Option<usize> {
    let name = layout.name_under(&key("ann"), policy.name());
    let hash = server.command(&[&b"HGETALL"[..], &name]).expect("HGETALL");
    let bytes = |reply: &Reply| match reply {
        Reply::Bulk(bytes) => bytes.clone(),
        other => panic!("{other:?}"),
    };
    let all: Vec<_> = hash.items().iter().map(bytes).collect();
    if all.is_empty() {
        return None;
    }
    let fields = all.chunks(2).map(|pair| (&pair[0][..], &pair[1][..]));
    let stored = StoredAttempts::read("login", fields).expect("sound");
    assert!(stored.attempts.is_sorted());
    let chunks = all.len() / 2 - 1;
    let most = stored.attempts.len().saturating_sub(1).div_ceil(72) + 1;
    assert!(
        chunks <= most,
        "{chunks} chunks of {}",
        stored.attempts.len()
    );
    Some(stored.attempts.len())
}

async fn prop_attempts_in_chunks_agree_with_the_math(client: Client, flavour: Flavour) {
    let seed = std::env::var("LIMITER_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("LIMITER_SEED={seed} for {client:?} on {flavour:?}");
    let mut rng = Rng::with_seed(seed);
    let server = RedisServer::start(flavour).expect("a server starts");
    let mut most = 0;
    for _ in 0..HISTORIES {
        let (clock, layout) = (ManualClock::new(), layout());
        let store = client.attempts_by(clock.clone(), &server.url(), &layout, PATIENT);
        most = most.max(agrees(&mut rng, &server, &layout, &clock, &store).await);
    }
    assert!(most > 3 * 72, "at most {most} attempts were kept");
}

fn whole(span: Duration) -> Duration {
    Duration::from_micros(u64::try_from(span.as_micros()).expect("short"))
}

/// Lets a history happen; returns the most attempts that were kept.
async fn agrees(
    rng: &mut Rng,
    server: &RedisServer,
    layout: &KeyLayout,
    clock: &ManualClock,
    store: &Arc<dyn AbuseRepository>,
) -> usize {
    let (ann, mut state) = (key("ann"), None);
    // Several chunks to begin with.
    let tier = Tier::new("tier0", 400, Duration::from_secs(1));
    let policy = AbusePolicy::builder("login").tier(tier).build();
    let mut policy = policy.expect("a policy");
    for _ in 0..250 {
        let said = store.record(&ann, &policy).await.expect("an answer");
        assert_eq!(said, abuse::record(&policy, &mut state, clock.now()));
        clock.advance(Duration::from_millis(1));
    }
    let mut most = stored(server, layout, &policy).unwrap_or(0);
    for _ in 0..STEPS {
        let window = policy.tiers()[policy.tiers().len() - 1].window();
        match rng.u8(0..20) {
            0 => policy = self::policy(rng),
            1 => {
                store.forgive(&ann, &policy).await.expect("forgiven");
                abuse::forgive(&policy, &mut state, clock.now());
            }
            2 => {
                let lifted = store.unblock(&ann, &policy).await.expect("an answer");
                assert_eq!(lifted, abuse::unblock(&mut state, clock.now()));
            }
            3 => clock.advance(whole(window.mul_f64(rng.f64()))),
            4 => clock.advance(window),
            5 => clock.step_back(Duration::from_millis(rng.u64(1..50))),
            _ => {
                let pause = whole(window / rng.u32(50..1000));
                for _ in 0..rng.u32(1..120) {
                    let said = store.record(&ann, &policy).await.expect("an answer");
                    let expected = abuse::record(&policy, &mut state, clock.now());
                    assert_eq!(said, expected, "{policy}");
                    clock.advance(pause * rng.u32(0..2));
                }
            }
        }
        let said = store.status(&ann, &policy).await.expect("an answer");
        let expected = abuse::status(&policy, state.as_ref(), clock.now());
        assert_eq!(said, expected, "{policy}");
        let kept = stored(server, layout, &policy);
        assert_eq!(kept.is_some(), state.is_some());
        most = most.max(kept.unwrap_or(0));
    }
    most
}
