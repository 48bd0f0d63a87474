#![doc = include_str!("../README.md")]
#![warn(clippy::pedantic)]

mod abuse_shard;
mod abuse_store;
mod builder;
mod counters;
mod fingerprint;
mod origins;
mod plan_entry;
mod plan_shard;
mod sharded;
mod store;
mod sync;
mod system_clock;
mod system_random;
mod table;
mod tracked;

pub use abuse_store::MemoryAbuseStore;
pub use builder::{InvalidMaxKeys, MemoryStoreBuilder};
pub use counters::MemoryStats;
pub use store::MemoryStore;
pub use system_clock::SystemClock;
pub use system_random::SystemRandom;
