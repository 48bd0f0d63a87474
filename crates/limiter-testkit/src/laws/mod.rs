//! The laws: one function each, over any [`StoreUnderTest`](crate::StoreUnderTest). Each wants a fresh store.
//!
//! [`store_laws!`](crate::store_laws) makes a test of every one. Two lines of the store's contract are not among them,
//! because they need a store that fails: deadlines, and that a call that may have run is not tried again.
//!
//! # Panics
//! A law that is broken panics, as an assertion does.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "laws are assertions: a broken one has to panic"
)]

mod algorithms;
mod answer;
mod atomicity;
mod chain;
mod clock;
mod denial;
mod expiry;
mod giving_back;
mod identity;
mod plan_change;
mod probe;
mod promise;

pub use algorithms::*;
pub use answer::*;
pub use atomicity::*;
pub use chain::*;
pub use clock::*;
pub use denial::*;
pub use expiry::*;
pub use giving_back::*;
pub use identity::*;
pub use plan_change::*;
pub use promise::*;
