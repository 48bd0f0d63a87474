#![doc = include_str!("../README.md")]
#![warn(clippy::pedantic)]

mod attempts;
mod builder;
mod connection;
mod deadline;
mod dial;
mod endpoint;
mod error;
mod job;
mod link;
mod store;
mod system_random;

pub use builder::FredStoreBuilder;
pub use endpoint::{Endpoint, InvalidEndpoint};
pub use limiter_lua::{InvalidPrefix, KeyLayout, Script};
pub use store::FredStore;
pub use system_random::SystemRandom;

pub use fred;
