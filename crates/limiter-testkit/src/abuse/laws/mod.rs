//! The laws: one function each, over any [`AbuseStoreUnderTest`](super::AbuseStoreUnderTest). Each wants a fresh store.
//!
//! [`abuse_laws!`](crate::abuse_laws) makes a test of every one.
//!
//! # Panics
//! A law that is broken panics, as an assertion does.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "laws are assertions: a broken one has to panic"
)]

mod atomicity;
mod blocks;
mod clock;
mod escalation;
mod identity;
mod lifting;
mod memory;
mod policy_change;
mod probe;
mod threshold;

pub use atomicity::*;
pub use blocks::*;
pub use clock::*;
pub use escalation::*;
pub use identity::*;
pub use lifting::*;
pub use memory::*;
pub use policy_change::*;
pub use threshold::*;
