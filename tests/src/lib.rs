//! What tests across crates share: stores that fail on command, and an observer that counts.

mod tally;
mod troubled_store;

pub use tally::Tally;
pub use troubled_store::{Trouble, TroubledStore};

/// The examples of the project's README, as tests.
#[doc = include_str!("../README.md")]
#[cfg(doctest)]
pub struct Readme;
