//! [`SessionRig`]: a store of sessions on servers, with the clock in the test's hand.

use std::fmt;
use std::sync::Arc;

use limiter_core::Clock;
use limiter_lua::{SessionKey, SessionNames};
use limiter_sessions::{FEED_RETENTION, IpSignal, SessionPorts};

use super::server_rig::OnNode;
use super::{Site, Tools};
use crate::ManualClock;
use crate::server::{RedisServer, Reply};
use crate::sessions::SessionStoreUnderTest;

/// A store of sessions on servers, with the clock in the test's hand.
pub struct SessionRig {
    /// The store.
    pub store: Arc<dyn SessionPorts>,
    /// What it was made of.
    pub tools: Tools,
    /// Its servers.
    pub nodes: Vec<&'static RedisServer>,
    make: Box<dyn Fn(Tools) -> Arc<dyn SessionPorts> + Send + Sync>,
    races_hard: bool,
}

/// About how many calls a law of racing callers makes, unless the rig is told to [race hard](SessionRig::racing_hard); the
/// environment variable `LIMITER_RACING_CALLS` may say otherwise.
const RACING_CALLS: u32 = 6_400;
/// As many as a suite has time for.
const HARD_RACING_CALLS: u32 = 64_000;
/// A nonce is quickly taken: there is time for more.
const HARD_RACING_NONCES: u32 = 10_000;
/// For how long the scripts leave in place what has outlived its time.
const GRACE_US: u64 = 1_000_000;

impl SessionRig {
    /// Makes a rig on `site` with the stores that `make` makes.
    pub fn new(
        site: Site,
        make: impl Fn(Tools) -> Arc<dyn SessionPorts> + Send + Sync + 'static,
    ) -> Self {
        let tools = Tools::new(site);
        Self {
            store: make(tools.clone()),
            tools,
            nodes: site.nodes(),
            make: Box::new(make),
            races_hard: false,
        }
    }

    /// Lets racing callers make many more calls than usual: 10,000 nonces, each offered 16 times.
    #[must_use]
    pub const fn racing_hard(mut self) -> Self {
        self.races_hard = true;
        self
    }

    /// Returns the store's keys on all nodes, each with what it holds.
    fn keys(&self) -> Vec<(SessionKey, OnNode)> {
        let names = SessionNames::new(&self.tools.layout);
        let keys = OnNode::all(&self.nodes, |key| names.kind(key).is_some());
        let kinds = keys
            .into_iter()
            .filter_map(|key| Some((names.kind(&key.key)?, key)));
        kinds.collect()
    }

    fn ours(&self) -> impl Iterator<Item = OnNode> {
        self.keys().into_iter().map(|(_, key)| key)
    }
}

fn asked_for() -> Option<u32> {
    let calls = std::env::var("LIMITER_RACING_CALLS").ok()?;
    calls.parse().ok()
}

/// Returns the microsecond from which on a key means nothing; `None` if the server's own clock decides.
fn ends_at_us(kind: SessionKey, key: &OnNode) -> Option<u64> {
    let end = match kind {
        SessionKey::Session => number(&key.command("HGET", &["expires"]))?,
        SessionKey::Fingerprint | SessionKey::Cluster => {
            let last = key.command("ZRANGE", &["-1", "-1", "WITHSCORES"]);
            number(last.items().last()?)?
        }
        SessionKey::Address => {
            let last_seen = number(&key.command("HGET", &["last_seen"]))?;
            last_seen + micros(IpSignal::RETENTION.get())
        }
        SessionKey::Feed => {
            let newest = key.command("XREVRANGE", &["+", "-", "COUNT", "1"]);
            let fields = newest.items().first()?.items().get(1)?;
            number(fields.items().get(1)?)? + micros(FEED_RETENTION.get())
        }
        _ => return None,
    };
    Some(end + GRACE_US)
}

fn number(reply: &Reply) -> Option<u64> {
    reply.text()?.parse().ok()
}

fn micros(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl SessionStoreUnderTest for SessionRig {
    fn store(&self) -> Arc<dyn SessionPorts> {
        Arc::clone(&self.store)
    }

    fn node(&self) -> Arc<dyn SessionPorts> {
        (self.make)(self.tools.clone())
    }

    fn clock(&self) -> ManualClock {
        self.tools.clock.clone()
    }

    fn racing_calls(&self) -> u32 {
        let usual = if self.races_hard {
            HARD_RACING_CALLS
        } else {
            RACING_CALLS
        };
        asked_for().unwrap_or(usual)
    }

    fn racing_nonces(&self) -> u32 {
        match asked_for() {
            None if self.races_hard => HARD_RACING_NONCES,
            _ => self.racing_calls() / 16,
        }
    }

    async fn kept(&self) -> usize {
        let keys = self.keys().into_iter();
        keys.filter(|(kind, _)| *kind != SessionKey::Nonce).count()
    }

    async fn forget_idle(&self) {
        let now_us = self.tools.clock.now().as_micros();
        let keys = self.keys();
        let is_idle = |kind, key| ends_at_us(kind, key).is_some_and(|end| end <= now_us);
        let mut quiet = Vec::new();
        for (kind, key) in &keys {
            if is_idle(*kind, key) {
                key.delete();
                if *kind == SessionKey::Address {
                    quiet.push(key.key.clone());
                }
            }
        }
        // The fingerprints of an address live and die with its signals: their names differ in one letter.
        for (kind, key) in &keys {
            let mut signals = key.key.clone();
            if let Some(letter) = signals.get_mut(self.tools.layout.root().len() + 1) {
                *letter = b'i';
            }
            if *kind == SessionKey::Uniques && quiet.contains(&signals) {
                key.delete();
            }
        }
    }

    async fn immortal_keys(&self) -> usize {
        self.ours().filter(OnNode::is_immortal).count()
    }

    async fn key_names(&self) -> Vec<Vec<u8>> {
        self.ours().map(|key| key.key).collect()
    }
}

impl fmt::Debug for SessionRig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionRig")
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}
