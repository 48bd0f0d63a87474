//! [`ServerRig`]: a store on servers, with clock and chance in the test's hand.
#![expect(
    clippy::expect_used,
    reason = "a server that does not answer ends the test"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use limiter_core::{AbusePolicy, AbuseRepository, Clock, Key, RateLimiterRepository};
use limiter_lua::{KeyLayout, StoredAttempts};

use super::Site;
use crate::abuse::AbuseStoreUnderTest;
use crate::server::{RedisServer, Reply};
use crate::{ManualClock, ManualRandom, StoreUnderTest};

/// What a store under test is made of.
#[derive(Clone, Debug)]
pub struct Tools {
    /// Where the servers are.
    pub address: String,
    /// A layout that no other test has.
    pub layout: KeyLayout,
    /// The clock that the store must read.
    pub clock: ManualClock,
    /// The source that the store must draw from.
    pub random: ManualRandom,
}

impl Tools {
    pub(super) fn new(site: Site) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            address: site.address(),
            layout: KeyLayout::new(format!("t{}-{nth}", std::process::id())).expect("a prefix"),
            clock: ManualClock::new(),
            random: ManualRandom::new(),
        }
    }
}

/// A store on servers, with clock and chance in the test's hand.
#[derive(Debug)]
pub struct ServerRig<S> {
    /// The store.
    pub store: Arc<S>,
    /// What it was made of.
    pub tools: Tools,
    /// Its servers.
    pub nodes: Vec<&'static RedisServer>,
}

impl<S> ServerRig<S> {
    /// Makes a rig on `site` with the store that `make` makes.
    pub fn new(site: Site, make: impl FnOnce(Tools) -> S) -> Self {
        let tools = Tools::new(site);
        Self {
            store: Arc::new(make(tools.clone())),
            tools,
            nodes: site.nodes(),
        }
    }

    /// Returns the keys on all nodes that `is_ours` says are the store's.
    fn keys(&self, is_ours: impl Fn(&KeyLayout, &[u8]) -> bool) -> Vec<OnNode> {
        OnNode::all(&self.nodes, |key| is_ours(&self.tools.layout, key))
    }

    fn identities(&self) -> Vec<OnNode> {
        self.keys(|layout, key| layout.key_bytes(key).is_some())
    }

    fn attempts(&self) -> Vec<OnNode> {
        self.keys(|layout, key| layout.key_and_policy(key).is_some())
    }
}

/// A key, and the server that has it.
pub(super) struct OnNode {
    node: &'static RedisServer,
    pub(super) key: Vec<u8>,
}

impl OnNode {
    /// Returns the keys on all of `nodes` that `is_ours` takes.
    pub(super) fn all(
        nodes: &[&'static RedisServer],
        is_ours: impl Fn(&[u8]) -> bool,
    ) -> Vec<Self> {
        let mut found = Vec::new();
        for node in nodes {
            let keys = node.keys().expect("keys").into_iter();
            let ours = keys.filter(|key| is_ours(key));
            found.extend(ours.map(|key| Self { node, key }));
        }
        found
    }

    /// Sends a command with the key as its first argument.
    pub(super) fn command(&self, verb: &str, args: &[&str]) -> Reply {
        let mut command = vec![verb.as_bytes(), &self.key];
        command.extend(args.iter().map(|arg| arg.as_bytes()));
        self.node.command(&command).expect("an answer")
    }

    fn ask(&self, verb: &str) -> Reply {
        self.command(verb, &[])
    }

    pub(super) fn is_immortal(&self) -> bool {
        self.ask("PTTL").int().is_none_or(|ttl| ttl < 0)
    }

    pub(super) fn delete(&self) {
        self.ask("DEL");
    }

    /// Returns the moment at which the server may delete the key of an identity, by the rule in `chain.lua`.
    fn lives_until_us(&self) -> u64 {
        assert!(!self.is_immortal(), "a key without a TTL");
        let fields = self.ask("HVALS");
        let states = fields.items().iter().map(bytes_of);
        let ends = states.map(|state| {
            let state = limiter_lua::read_state("any", state);
            state.expect("a state").expires_at_us()
        });
        (ends.max().expect("a field") / 5_000_000 + 1) * 5_000_000 + 1_000_000
    }

    /// Returns the moment at which the server may delete attempts, by the rule in `abuse.lua`.
    fn attempts_live_until_us(&self) -> u64 {
        let hash = self.ask("HGETALL");
        let fields = hash.items().chunks_exact(2).filter_map(|pair| match pair {
            [field, value] => Some((bytes_of(field), bytes_of(value))),
            _ => None,
        });
        let stored = StoredAttempts::read("any", fields);
        stored.expect("attempts").expires_at_us + 6_000_000
    }
}

fn bytes_of(reply: &Reply) -> &[u8] {
    match reply {
        Reply::Bulk(bytes) => bytes,
        _ => &[],
    }
}

impl<S: RateLimiterRepository + 'static> StoreUnderTest for ServerRig<S> {
    fn store(&self) -> Arc<dyn RateLimiterRepository> {
        self.store.clone()
    }

    fn clock(&self) -> ManualClock {
        self.tools.clock.clone()
    }

    fn random(&self) -> ManualRandom {
        self.tools.random.clone()
    }

    async fn tracked_keys(&self) -> usize {
        self.identities().len()
    }

    async fn forget_idle(&self) {
        let now_us = self.tools.clock.now().as_micros();
        let identities = self.identities();
        let idle = identities
            .iter()
            .filter(|key| key.lives_until_us() <= now_us);
        idle.for_each(OnNode::delete);
    }
}

impl<S: AbuseRepository + 'static> AbuseStoreUnderTest for ServerRig<S> {
    fn store(&self) -> Arc<dyn AbuseRepository> {
        self.store.clone()
    }

    fn clock(&self) -> ManualClock {
        self.tools.clock.clone()
    }

    async fn tracked_keys(&self) -> usize {
        self.attempts().len()
    }

    async fn forget_idle(&self) {
        let now_us = self.tools.clock.now().as_micros();
        let attempts = self.attempts();
        let idle = attempts
            .iter()
            .filter(|key| key.attempts_live_until_us() <= now_us);
        idle.for_each(OnNode::delete);
    }

    async fn bytes_of(&self, key: &Key, policy: &AbusePolicy) -> Option<usize> {
        let name = self.tools.layout.name_under(key, policy.name());
        let found = self.attempts().into_iter().find(|on| on.key == name)?;
        let usage: [&[u8]; 5] = [b"MEMORY", b"USAGE", &name, b"SAMPLES", b"0"];
        let bytes = found.node.command(&usage);
        usize::try_from(bytes.expect("MEMORY USAGE").int()?).ok()
    }

    async fn immortal_keys(&self) -> usize {
        let attempts = self.attempts();
        attempts.iter().filter(|key| key.is_immortal()).count()
    }
}
