//! The laws that every store of limiter obeys, and what tests of rate limits need: a manual clock and chosen chance.
mod manual_clock;
mod manual_random;
mod seeded_random;
mod store_under_test;

#[cfg(all(feature = "servers", unix))]
pub mod proxy;
#[cfg(all(feature = "servers", unix))]
pub mod server;

pub use manual_clock::{ManualClock, Skew};
pub use manual_random::ManualRandom;
pub use seeded_random::SeededRandom;
pub use store_under_test::StoreUnderTest;
