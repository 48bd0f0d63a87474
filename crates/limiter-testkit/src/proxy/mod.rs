//! A TCP proxy that misbehaves on command, between a client under test and a real server.
//!
//! - [`Toxic`]s change how bytes flow: latency, bandwidth, slices, stall, black hole. They hold for every connection,
//!   old and new, until [`FaultProxy::heal`].
//! - [`ReplyRule`]s hit single replies, also only those to one command: lost after the server did the work, cut short,
//!   replaced by garbage, late.
//! - [`FaultProxy::close_connections`], [`FaultProxy::reset_connections`] and [`FaultProxy::refuse_connections`] act on
//!   connections as a whole.
//!
//! The proxy lives in the runtime that started it. That runtime needs a thread to spare: tests that also block, as
//! those with [`RedisServer`](crate::server::RedisServer) do, take the multi-threaded one.
//!
//! ```no_run
//! use limiter_testkit::proxy::{Ending, FaultProxy, ReplyFault, ReplyRule};
//! use limiter_testkit::server::{Flavour, RedisServer, ServerError};
//!
//! # async fn demo() -> Result<(), ServerError> {
//! let server = RedisServer::start(Flavour::Redis)?;
//! let proxy = FaultProxy::start(server.addr()).await?;
//! let url = server.url_at(proxy.addr());
//! proxy.add_rule(ReplyRule::next(1, ReplyFault::Lost(Ending::Close)).to_command("EVALSHA"));
//! // A call through `url` now runs on the server once, and its caller never learns of it.
//! # Ok(())
//! # }
//! ```

mod connection;
mod fault_proxy;
mod proxy_counts;
mod pump;
mod reply_filter;
mod reply_rule;
mod resp_framer;
mod toxic;

pub use fault_proxy::FaultProxy;
pub use proxy_counts::ProxyCounts;
pub use reply_rule::{Ending, ReplyFault, ReplyRule};
pub use toxic::{Direction, Toxic};
