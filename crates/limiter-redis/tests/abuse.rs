//! Attempts on a real server: what they take there, and what happens to values that nobody should have written.
#![cfg(test)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use limiter_core::{AbusePolicy, AbuseRepository, Key, StoreError, Tier, days, seconds};
use limiter_redis::{Endpoint, KeyLayout, RedisStore};
use limiter_testkit::block_on;
use limiter_testkit::server::{RedisServer, Reply};
use support::{PATIENT, Rig, Site, on};

fn policy(threshold: u32) -> AbusePolicy {
    policy_of_tier("temp", threshold)
}

fn policy_of_tier(name: &str, threshold: u32) -> AbusePolicy {
    let tier = Tier::new(name, threshold, days(1));
    AbusePolicy::builder("login").tier(tier).build().unwrap()
}

fn key() -> Key {
    Key::new("203.0.113.9").unwrap()
}

fn integer(server: &RedisServer, command: &[&[u8]]) -> i64 {
    server.command(command).unwrap().int().unwrap()
}

/// Hammers one key with `attempts` attempts of 64 tasks.
async fn hammer(rig: &Rig, policy: &AbusePolicy, attempts: u32) {
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let (store, policy) = (Arc::clone(&rig.store), policy.clone());
            tokio::spawn(async move {
                for _ in 0..attempts / 64 {
                    let _ = store.record(&key(), &policy).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// What a key takes at most, as the READMEs say: looked at again and again, for it is not always the same.
fn hammered_key_is_bounded(site: Site) {
    let short = [1_u32, 5, 9, 10, 16, 50, 71, 72, 73, 74, 75];
    let long = [100, 144, 145, 1_000, 10_000];
    for (name_len, besides) in [(24, 320), (64, 448)] {
        for threshold in short.into_iter().chain(long) {
            let policy = policy_of_tier(&"t".repeat(name_len), threshold);
            let most = most_bytes(site, &policy);
            println!("threshold {threshold}, {name_len} characters: {most} bytes");
            assert!(most <= i64::from(threshold) * 16 + besides, "{most} bytes");
        }
    }
}

/// Hammers a key until it has as many attempts as it ever keeps, and longer.
fn most_bytes(site: Site, policy: &AbusePolicy) -> i64 {
    let rig = on(site);
    let server = rig.nodes[0];
    let name = rig.tools.layout.name_under(&key(), policy.name());
    let usage: [&[u8]; 5] = [b"MEMORY", b"USAGE", &name, b"SAMPLES", b"0"];
    let attempts = policy.largest_threshold().max(6_400).next_multiple_of(64);
    let mut most = 0;
    block_on(async {
        hammer(&rig, policy, attempts).await;
        for _ in 0..150 {
            hammer_once(&rig, policy).await;
            most = most.max(integer(server, &usage));
        }
    });
    assert!(integer(server, &[b"PTTL", &name]) > 0);
    most
}

async fn hammer_once(rig: &Rig, policy: &AbusePolicy) {
    let _ = rig.store.record(&key(), policy).await.unwrap();
}

#[test]
fn a_hammered_key_takes_bounded_memory_on_redis() {
    hammered_key_is_bounded(Site::Redis);
}

#[test]
fn a_hammered_key_takes_bounded_memory_on_valkey() {
    hammered_key_is_bounded(Site::Valkey);
}

/// A sound state that knows of one attempt.
const LOST: [u8; 40] = {
    let mut state = [0; 40];
    state[0] = 0x16;
    state[38] = 1;
    state
};

#[test]
fn values_of_another_version_or_of_no_version_are_errors_and_stay() {
    let rig = on(Site::Redis);
    let name = rig.tools.layout.name_under(&key(), policy(5).name());
    let values = [
        (&b"\x26anything"[..], "unknown version 2"),
        (b"\x16short", "corrupt"),
        (&[0x16; 41], "corrupt"),
        // Attempts of which there is no chunk.
        (&LOST, "corrupt"),
        (b"", "unknown version 0"),
    ];
    block_on(async {
        for (value, says) in values {
            let set = [&b"HSET"[..], &name, b"state", value];
            rig.nodes[0].command(&set).unwrap();
            let error = rig.store.record(&key(), &policy(5)).await.unwrap_err();
            assert!(
                matches!(error, StoreError::Misconfigured { .. }),
                "{error:?}"
            );
            assert!(format!("{error:?}").contains(says), "{error:?}");
            let kept = rig.nodes[0].command(&[&b"HGETALL"[..], &name]).unwrap();
            let [field, kept] = kept.items() else {
                panic!("{kept:?}")
            };
            assert_eq!(field, &Reply::Bulk(b"state".to_vec()));
            assert_eq!(kept, &Reply::Bulk(value.to_vec()));
        }
    });
}

#[test]
fn without_a_clock_of_its_own_a_store_goes_by_the_servers_time() {
    let (address, server) = (Site::Redis.address(), Site::Redis.nodes()[0]);
    let layout = KeyLayout::new(format!("s{}", std::process::id())).unwrap();
    let store = RedisStore::builder(address.parse::<Endpoint>().unwrap())
        .with_layout(layout.clone())
        .with_deadline(PATIENT)
        .with_connect_timeout(PATIENT)
        .build()
        .unwrap();
    let tier = Tier::new("temp", 2, seconds(60)).blocking_for(seconds(90));
    let policy = AbusePolicy::builder("Login").tier(tier).build().unwrap();
    block_on(async {
        assert_eq!(store.record(&key(), &policy).await.unwrap().block, None);
        let second = store.record(&key(), &policy).await.unwrap();
        assert_eq!(second.block.unwrap().retry_after, seconds(90));
        let name = layout.name_under(&key(), policy.name());
        let ttl = integer(server, &[b"PTTL", &name]);
        assert!((90_000..=96_001).contains(&ttl), "{ttl} ms");
        let lifted = store.unblock(&key(), &policy).await.unwrap().unwrap();
        assert!(lifted.retry_after <= seconds(90) && lifted.retry_after > Duration::ZERO);
        assert_eq!(integer(server, &[b"EXISTS", &name]), 0);
    });
}
