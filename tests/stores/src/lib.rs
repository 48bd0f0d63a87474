//! What tests of shared stores have in common: every client, every arrangement of servers, and checks that hold whatever
//! goes wrong.
#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "these are tests, in a library so that several files share them"
)]

mod arranged;
mod black_hole;
mod callers;
mod client;
mod crowd;
mod fail_fast;
mod foreign_values;
mod forgotten_scripts;
mod given;
mod load;
mod loading;
mod stage;
mod timed;
mod timed_sessions;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use limiter_core::{AbuseRepository, Cost, Key, Plan, RateLimiterRepository, StoreError, Verdict};
use limiter_lua::KeyLayout;
use limiter_sessions::SessionPorts;
use limiter_testkit::server::RedisServer;

pub use arranged::{Arranged, FAIL_OVER, RECOVERY};
pub use black_hole::BlackHole;
pub use callers::{no_cancelled_caller_gets_anothers_reply, no_surplus_reply_is_read_as_an_answer};
pub use client::{BEHIND_SENTINELS, Client, IN_A_CLUSTER, OTHER_DATABASE};
pub use crowd::Crowd;
pub use fail_fast::calls_that_fail_let_others_get_on;
pub use foreign_values::foreign_values_are_neither_read_nor_overwritten;
pub use forgotten_scripts::every_call_is_answered_while_scripts_are_flushed;
pub use given::{fred_client, fred_cluster, redis_cluster, redis_manager};
pub use load::{Load, used_up};
pub use loading::loading_server_is_waited_for;
pub use stage::{Servers, Stage};
pub use timed::{ends_by, in_time, timed, timed_attempts};
pub use timed_sessions::timed_sessions;

pub type Store = Arc<dyn RateLimiterRepository>;
pub type Attempts = Arc<dyn AbuseRepository>;
pub type Sessions = Arc<dyn SessionPorts>;

/// The deadline that the README promises.
pub const DEADLINE: Duration = Duration::from_millis(50);
/// Long enough for a crowded machine, where the deadline is not what is tested.
pub const PATIENT: Duration = Duration::from_secs(5);
/// The same, where a call is to end by its deadline and the test waits for it.
pub const UNHURRIED: Duration = Duration::from_secs(2);

/// Returns a layout that no other test has.
#[must_use]
pub fn layout() -> KeyLayout {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let nth = NEXT.fetch_add(1, Ordering::Relaxed);
    KeyLayout::new(format!("f{}-{nth}", std::process::id())).expect("a sound prefix")
}

#[must_use]
pub fn key(name: &str) -> Key {
    Key::new(name).expect("a key")
}

#[must_use]
pub fn plan(name: &str, limit: &str) -> Plan {
    Plan::new(name, limit).expect("a plan")
}

/// A bucket that does not refill while a test runs.
#[must_use]
pub fn bucket(capacity: u32) -> Plan {
    plan("gold", &format!("1/h burst {capacity}"))
}

/// Spends one unit.
///
/// # Errors
/// What the store says.
pub async fn spend(store: &Store, key: &Key, plan: &Plan) -> Result<Verdict, StoreError> {
    store
        .try_acquire(key, std::slice::from_ref(plan), Cost::ONE)
        .await
}

/// Calls until the store answers again, for `limit` at most; returns how long that took.
pub async fn recovers(store: &Store, plan: &Plan, limit: Duration) -> Duration {
    recovers_for(store, &key("probe of recovery"), plan, limit).await
}

/// The same with calls of `user`: in a cluster another may be on another node.
pub async fn recovers_for(store: &Store, user: &Key, plan: &Plan, limit: Duration) -> Duration {
    let began = Instant::now();
    loop {
        match spend(store, user, plan).await {
            Ok(_) => return began.elapsed(),
            Err(error) => assert!(
                began.elapsed() < limit,
                "no recovery in {limit:?}: {error:?}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns how many units are spent under `plan`, by the store itself. It looks until it is told: on a crowded machine a server
/// does not always come to its turn before a deadline, and a look changes nothing.
pub async fn spent(store: &Store, key: &Key, plan: &Plan) -> u32 {
    let began = Instant::now();
    loop {
        match store.peek(key, std::slice::from_ref(plan), Cost::ONE).await {
            Ok(said) => return plan.limit().units() - said.plans[0].remaining,
            Err(error) => assert!(
                error.is_outage() && began.elapsed() < PATIENT,
                "no answer in {PATIENT:?}: {error:?}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Checks what a call whose reply was lost has said, and charged: that it may have charged, and once. A crowded machine may
/// leave a call that has only [`DEADLINE`] no time to be sent at all: then not even once.
pub fn check_lost_reply(deadline: Duration, error: &StoreError, charged: u32) {
    assert!(error.is_outage(), "{error:?}");
    let may_have_charged = error.may_have_charged();
    assert!(
        charged <= u32::from(may_have_charged),
        "{charged}: {error:?}"
    );
    if deadline > DEADLINE {
        assert!(may_have_charged && charged == 1, "{charged}: {error:?}");
    }
}

/// Checks that no key of a server would stay for ever.
pub fn no_immortal_keys(server: &RedisServer) {
    let began = Instant::now();
    loop {
        match server.keys_without_ttl() {
            Ok(immortal) => {
                assert!(immortal.is_empty(), "keys without a TTL: {immortal:?}");
                return;
            }
            // A fail-over cuts the connection of the test, too, and a node may learn of it later than others.
            Err(error) => assert!(began.elapsed() < PATIENT, "no answer: {error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Makes a test of each function for every client.
#[macro_export]
macro_rules! on_clients {
    ($($test:ident)*) => {
        $crate::on_clients! { @redis_rs Redis $($test)* }
        $crate::on_clients! { @fred Fred $($test)* }
    };
    (@$module:ident $client:ident $($test:ident)*) => {
        mod $module {
            $(
                #[test]
                fn $test() {
                    limiter_testkit::block_on(super::$test($crate::Client::$client));
                }
            )*
        }
    };
}

/// Makes a test of each function for every client on Redis and on Valkey.
#[macro_export]
macro_rules! on_clients_and_servers {
    ($($test:ident)*) => {
        $crate::on_clients_and_servers! { @redis_rs_on_redis Redis Redis $($test)* }
        $crate::on_clients_and_servers! { @redis_rs_on_valkey Redis Valkey $($test)* }
        $crate::on_clients_and_servers! { @fred_on_redis Fred Redis $($test)* }
        $crate::on_clients_and_servers! { @fred_on_valkey Fred Valkey $($test)* }
    };
    (@$module:ident $client:ident $flavour:ident $($test:ident)*) => {
        mod $module {
            $(
                #[test]
                fn $test() {
                    let flavour = limiter_testkit::server::Flavour::$flavour;
                    limiter_testkit::block_on(super::$test($crate::Client::$client, flavour));
                }
            )*
        }
    };
}

/// As [`on_clients!`], for functions that take a [`Stage`]: once the test is over, no key of its servers may be without a TTL.
#[macro_export]
macro_rules! faults_on_clients {
    ($($test:ident)*) => {
        $crate::faults_on_clients! { @redis_rs Redis Redis $($test)* }
        $crate::faults_on_clients! { @fred Fred Redis $($test)* }
    };
    (@$module:ident $client:ident $flavour:ident $($test:ident)*) => {
        mod $module {
            $(
                #[test]
                fn $test() {
                    let flavour = limiter_testkit::server::Flavour::$flavour;
                    let stage = $crate::Stage::new($crate::Client::$client, flavour);
                    limiter_testkit::block_on(super::$test(&stage));
                    stage.no_immortal_keys();
                }
            )*
        }
    };
}

/// As [`faults_on_clients!`], on Redis and on Valkey.
#[macro_export]
macro_rules! faults_on_clients_and_servers {
    ($($test:ident)*) => {
        $crate::faults_on_clients! { @redis_rs_on_redis Redis Redis $($test)* }
        $crate::faults_on_clients! { @redis_rs_on_valkey Redis Valkey $($test)* }
        $crate::faults_on_clients! { @fred_on_redis Fred Redis $($test)* }
        $crate::faults_on_clients! { @fred_on_valkey Fred Valkey $($test)* }
    };
}
