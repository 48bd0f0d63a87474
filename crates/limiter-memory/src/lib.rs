#![doc = include_str!("../README.md")]
#![warn(clippy::pedantic)]

mod boxes;
mod builder;
mod counters;
mod entry;
mod fingerprint;
mod keeper;
mod kept;
mod origins;
mod pages;
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
