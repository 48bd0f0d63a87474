//! The store of attempts and blocks.
//!
//! It has a table of its own: a tree from fingerprints to boxed states. A state of attempts takes more than a slot of the
//! table of plans has room for anyhow, and nothing here can slow that table down.

mod shard;
mod stats;
mod store;

pub use stats::AttemptStats;
pub use store::MemoryAbuseStore;
