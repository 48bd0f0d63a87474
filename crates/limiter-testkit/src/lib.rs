//! The laws that every store of limiter obeys, and what tests of rate limits need: a manual clock, chosen chance, and a
//! slow, obvious model to compare with.
//!
//! A store adopts all laws with one line of its `tests/laws.rs`, and a [`StoreUnderTest`] that says how to make it:
//! ```
//! use std::sync::Arc;
//!
//! use limiter_core::RateLimiterRepository;
//! use limiter_testkit::{ManualClock, ManualRandom, ModelStore, StoreUnderTest};
//!
//! struct MyStore(ModelStore); // here: your store, made with the clock and the random source of the testkit
//!
//! impl StoreUnderTest for MyStore {
//!     fn store(&self) -> Arc<dyn RateLimiterRepository> {
//!         self.0.store()
//!     }
//!     fn clock(&self) -> ManualClock {
//!         self.0.clock()
//!     }
//!     fn random(&self) -> ManualRandom {
//!         self.0.random()
//!     }
//!     async fn tracked_keys(&self) -> usize {
//!         self.0.tracked_keys().await
//!     }
//!     async fn forget_idle(&self) {
//!         self.0.forget_idle().await
//!     }
//! }
//!
//! limiter_testkit::store_laws!(MyStore(ModelStore::new()));
//! ```

pub mod abuse;
pub mod laws;
mod manual_clock;
mod manual_random;
mod model;
mod model_store;
mod runtime;
mod seeded_random;
pub mod state_machine;
mod store_laws;
mod store_under_test;

pub use manual_clock::{ManualClock, Skew};
pub use manual_random::ManualRandom;
pub use model::Model;
pub use model_store::ModelStore;
pub use runtime::block_on;
pub use seeded_random::SeededRandom;
pub use store_under_test::StoreUnderTest;

pub use proptest;
pub use tokio;
