//! The store of sessions, nonces, IP signals, anomalies and clusters.
//!
//! One lock for each of them, around a tree that knows what expires next: sessions, nonces and addresses take no longer for being
//! full. Clusters that are full as a whole look through all labels for members to free, before they refuse one more.

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
