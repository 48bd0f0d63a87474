#![doc = include_str!("../README.md")]
#![warn(clippy::pedantic)]

mod builder;
mod counters;
mod entry;
mod fingerprint;
mod origins;
mod shard;
mod store;
mod sync;
mod system_clock;
mod system_random;
mod table;

pub use builder::{InvalidMaxKeys, MemoryStoreBuilder};
pub use counters::MemoryStats;
pub use store::MemoryStore;
pub use system_clock::SystemClock;
pub use system_random::SystemRandom;
