//! Every law of stores of attempts, on every kind of server.
#![cfg(test)]

mod support;

use std::sync::Arc;

use limiter_core::{AbusePolicy, AbuseRepository, Clock, Key};
use limiter_lua::StoredAttempts;
use limiter_testkit::ManualClock;
use limiter_testkit::abuse::AbuseStoreUnderTest;
use limiter_testkit::server::{RedisServer, Reply};
use support::Rig;

mod redis_standalone {
    use super::support::{REDIS, Rig};
    limiter_testkit::abuse_laws!(Rig::on_server(&REDIS), cases = 256);
}

mod valkey_standalone {
    use super::support::{Rig, VALKEY};
    limiter_testkit::abuse_laws!(Rig::on_server(&VALKEY), cases = 256);
}

mod redis_cluster {
    use super::support::{CLUSTER, Rig};
    limiter_testkit::abuse_laws!(Rig::on_cluster(&CLUSTER));
}

mod redis_least_privilege {
    use super::support::{RESTRICTED, Rig};
    limiter_testkit::abuse_laws!(Rig::restricted(&RESTRICTED));
}

/// Returns the names of all attempts of the rig, each with its node.
fn attempts(rig: &Rig) -> Vec<(&'static RedisServer, Vec<u8>)> {
    let of = |node: &'static RedisServer| {
        let keys = node.keys().expect("keys");
        keys.into_iter()
            .filter(|key| rig.layout.key_and_policy(key).is_some())
            .map(move |key| (node, key))
    };
    rig.nodes.iter().flat_map(|node| of(node)).collect()
}

fn expires_at_us(node: &RedisServer, key: &[u8]) -> u64 {
    let value = node.command(&[&b"GET"[..], key]).expect("GET");
    let Reply::Bulk(value) = value else {
        panic!("a state is bytes")
    };
    let stored = StoredAttempts::read("any", &value).expect("a state");
    stored.expires_at_us
}

impl AbuseStoreUnderTest for Rig {
    fn store(&self) -> Arc<dyn AbuseRepository> {
        self.store.clone()
    }

    fn clock(&self) -> ManualClock {
        self.clock.clone()
    }

    async fn tracked_keys(&self) -> usize {
        attempts(self).len()
    }

    async fn forget_idle(&self) {
        let now_us = self.clock.now().as_micros();
        for (node, key) in attempts(self) {
            if expires_at_us(node, &key) + 6_000_000 <= now_us {
                node.command(&[&b"DEL"[..], &key]).expect("DEL");
            }
        }
    }

    async fn bytes_of(&self, key: &Key, policy: &AbusePolicy) -> Option<usize> {
        let name = self.layout.name_under(key, policy.name());
        let (node, _) = attempts(self).into_iter().find(|(_, key)| *key == name)?;
        let bytes = node.command(&[&b"MEMORY"[..], b"USAGE", &name]);
        usize::try_from(bytes.expect("MEMORY USAGE").int()?).ok()
    }

    async fn immortal_keys(&self) -> usize {
        let immortal = |(node, key): &(&RedisServer, Vec<u8>)| {
            let ttl = node.command(&[&b"PTTL"[..], key]).expect("PTTL");
            ttl.int().is_none_or(|ttl| ttl < 0)
        };
        attempts(self).iter().filter(|key| immortal(key)).count()
    }
}
