//! The Lua scripts of limiter's Redis stores, their key layout, and the coding of arguments and replies.
//!
//! There is no client in this crate: `limiter-redis` and `limiter-fred` send what a [`Call`] says and hand the reply back
//! to it. The scripts decide and write; they answer with the state as it was, and [`Call::answer`] makes the verdict of it
//! with [`limiter_core::math`], so that the numbers of an answer are the same whatever the store.
//!
//! Whoever brings a client of their own implements [`Driver`] and gets a [`Runner`]: connections that are renewed, a deadline
//! for each call, and nothing sent again that may have run.
#![warn(clippy::pedantic)]

mod abuse_call;
mod address;
mod bad_reply;
mod call;
mod entry;
mod escaped;
mod fault;
mod key_layout;
mod manual_time;
mod reader;
mod runner;
mod script;
#[cfg(feature = "sessions")]
mod sessions;
mod state;
mod stored_attempts;
#[cfg(feature = "tls")]
mod trust;

pub use abuse_call::AbuseCall;
pub use address::{Address, Arrangement, InvalidAddress};
pub use bad_reply::BadReply;
pub use call::{Answer, Call, field};
pub use fault::Fault;
pub use key_layout::{InvalidPrefix, KeyLayout};
pub use runner::{
    AddressMap, Connections, Driver, Failure, InvalidConnections, Job, Node, PoolSizing, Redirect,
    Reply, Route, Runner, Servers, Settings, SystemRandom, Target,
};
pub use script::Script;
#[cfg(feature = "sessions")]
pub use sessions::{ServerInfo, SessionKey, SessionNames, SessionRunner, read_session};
pub use state::read_state;
pub use stored_attempts::StoredAttempts;
#[cfg(feature = "tls")]
pub use trust::Trust;
