//! The store of sessions, nonces, IP signals, anomalies and clusters.
//!
//! One lock for each of them, around a tree that knows what expires next: nothing here takes longer for being full.

mod address;
mod builder;
mod clusters;
mod expiring;
mod feed;
mod report;
mod store;
mod uniques;

pub use builder::MemorySessionStoreBuilder;
pub use store::MemorySessionStore;
