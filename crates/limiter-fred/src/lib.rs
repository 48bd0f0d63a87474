#![doc = include_str!("../README.md")]
#![warn(clippy::pedantic)]

mod attempts;
mod builder;
mod connection;
mod connector;
mod endpoint;
mod error;
#[cfg(feature = "sessions")]
mod sessions;
mod store;

pub use builder::FredStoreBuilder;
pub use endpoint::{Endpoint, InvalidEndpoint};
pub use limiter_lua::{
    Connections, InvalidAddress, InvalidConnections, InvalidPrefix, KeyLayout, Node, PoolSizing,
    Script, SystemRandom,
};
pub use store::FredStore;

pub use fred;
