//! Real Redis and Valkey servers for tests: child processes on loopback ports that never outlive the test.
//!
//! - [`RedisServer`]: one server; [`RedisCluster`]: three masters, with replicas if asked; [`RedisSentinel`]: a primary,
//!   a replica and three sentinels. Each of them as Redis or as Valkey ([`Flavour`]).
//! - A server is killed and its directory removed when its handle is dropped, also while a panic unwinds. If the test
//!   process itself is killed, a watchdog process does the same.
//! - A program that cannot be found is [`ServerError::NotFound`], which says what to do. Nothing is skipped.
//! - Nothing here is async: every method blocks for as long as the server takes to answer. Call it from a runtime with
//!   several threads, or through `spawn_blocking`, where other tasks must go on meanwhile. All methods take `&self`.
//!
//! ```no_run
//! use limiter_testkit::server::{Flavour, RedisServer};
//!
//! # fn main() -> Result<(), limiter_testkit::server::ServerError> {
//! let server = RedisServer::builder(Flavour::Redis).with_max_memory_bytes(2_000_000).start()?;
//! println!("{}", server.url());
//! server.script_flush()?;
//! server.restart()?; // empty, on the same port
//! # Ok(())
//! # }
//! ```

mod admin;
mod flavour;
mod install;
mod port_lease;
mod redis_cluster;
mod redis_sentinel;
mod redis_server;
mod reply;
mod server_builder;
mod server_commands;
mod server_error;
mod slot_migration;
mod slot_range;
mod wait;
mod watched_child;

pub use flavour::Flavour;
pub use install::ensure_installed;
pub use port_lease::PortLease;
pub use redis_cluster::RedisCluster;
pub use redis_sentinel::RedisSentinel;
pub use redis_server::RedisServer;
pub use reply::Reply;
pub use server_builder::ServerBuilder;
pub use server_error::ServerError;
pub use slot_migration::SlotMigration;
