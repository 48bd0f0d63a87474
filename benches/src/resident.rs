//! Resident memory, measured in a process of its own.

use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use governor::{Quota, RateLimiter};
use limiter_core::{Cost, Key, Plan};
use limiter_memory::MemoryStore;

use crate::child::ask;
use crate::turned_clock::TurnedClock;
use crate::workload::key;

/// How many keys there are.
pub const KEYS: usize = 10_000_000;

const OURS: &str = "resident-ours";
const GOVERNOR: &str = "resident-governor";

/// What the memory store held.
pub struct OursResident {
    /// Bytes for each key while all are live.
    pub bytes_per_key: f64,
    /// The share of it that went back to the system once they were idle.
    pub returned_share: f64,
}

/// What governor held, and how long its clean-up kept everybody waiting.
pub struct GovernorResident {
    /// Bytes for each key while all are live.
    pub bytes_per_key: f64,
    /// Seconds in `retain_recent` and `shrink_to_fit`.
    pub clean_up_secs: f64,
}

/// Measures the memory store in a process of its own.
///
/// # Errors
/// If the child fails.
pub fn ours() -> io::Result<OursResident> {
    match ask(OURS)?.as_slice() {
        &[bytes_per_key, returned_share] => Ok(OursResident {
            bytes_per_key,
            returned_share,
        }),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Measures governor in a process of its own.
///
/// # Errors
/// If the child fails.
pub fn governor() -> io::Result<GovernorResident> {
    match ask(GOVERNOR)?.as_slice() {
        &[bytes_per_key, clean_up_secs] => Ok(GovernorResident {
            bytes_per_key,
            clean_up_secs,
        }),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Does `task`, in the child.
pub(crate) fn run(task: &str) -> Vec<f64> {
    match task {
        OURS => run_ours(),
        GOVERNOR => run_governor(),
        _ => Vec::new(),
    }
}

#[expect(clippy::unwrap_used, reason = "the numbers are allowed ones")]
fn run_ours() -> Vec<f64> {
    let clock = Arc::new(TurnedClock::default());
    let builder = MemoryStore::builder().max_keys(KEYS);
    let store = builder.clock(clock.clone()).build().unwrap();
    let plans = [Plan::new("gold", "10/h").unwrap()];
    let spend = |name: String| store.try_acquire_sync(&Key::new(name).unwrap(), &plans, Cost::ONE);
    let before = resident_bytes();
    for nth in 0..KEYS {
        assert!(spend(key(nth)).is_ok_and(|verdict| verdict.admitted));
    }
    let full = resident_bytes() - before;
    clock.advance_secs(7200);
    while store.stats().tracked_keys > 1 {
        let _ = spend("other".to_owned());
    }
    let left = resident_bytes() - before;
    vec![full / KEYS as f64, 1.0 - left / full]
}

fn run_governor() -> Vec<f64> {
    let per_second = NonZeroU32::MIN.saturating_add(9);
    let limiter = RateLimiter::keyed(Quota::per_second(per_second));
    let before = resident_bytes();
    for nth in 0..KEYS {
        assert!(limiter.check_key(&key(nth)).is_ok());
    }
    let full = resident_bytes() - before;
    std::thread::sleep(Duration::from_secs(1));
    let start = Instant::now();
    limiter.retain_recent();
    limiter.shrink_to_fit();
    vec![full / KEYS as f64, start.elapsed().as_secs_f64()]
}

/// Returns the resident memory of this process, or 0 where the system does not tell.
fn resident_bytes() -> f64 {
    const PAGE: f64 = 4096.0;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0.0) * PAGE
}
