#![doc = include_str!("../README.md")]
#![warn(clippy::pedantic)]

mod at_first_poll;
mod attempts;
mod boxes;
mod builder;
mod counters;
mod entry;
mod fingerprint;
mod keeper;
mod kept;
mod key_hash;
mod origins;
mod pages;
#[cfg(feature = "sessions")]
mod sessions;
mod shard;
mod short_lock;
mod store;
mod store_clock;
mod sync;
mod system_clock;
mod system_random;
mod table;

pub use attempts::{AttemptStats, MemoryAbuseStore};
pub use builder::{InvalidMaxKeys, MemoryStoreBuilder};
pub use counters::MemoryStats;
#[cfg(feature = "sessions")]
pub use sessions::{MemorySessionStore, MemorySessionStoreBuilder};
pub use store::MemoryStore;
pub use system_clock::SystemClock;
pub use system_random::SystemRandom;
