//! The laws: one function each, over any [`SessionStoreUnderTest`](super::SessionStoreUnderTest). Each wants a fresh store.
//!
//! [`session_laws!`](crate::session_laws) makes a test of every one.
//!
//! # Panics
//! A law that is broken panics, as an assertion does.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "laws are assertions: a broken one has to panic"
)]

mod clusters;
mod ending;
mod feed;
mod memory;
mod nonces;
mod probe;
mod racing;
mod sessions;
mod signals;
mod stats;

pub use clusters::*;
pub use ending::*;
pub use feed::*;
pub use memory::*;
pub use nonces::*;
pub use racing::*;
pub use sessions::*;
pub use signals::*;
pub use stats::*;
