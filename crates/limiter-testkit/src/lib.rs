#![doc = include_str!("../README.md")]

pub mod abuse;
mod captured_log;
pub mod laws;
mod manual_clock;
mod manual_random;
mod manual_timer;
mod model;
mod model_store;
mod replays;
mod runtime;
mod seeded_random;
#[cfg(feature = "sessions")]
pub mod sessions;
pub mod state_machine;
mod store_laws;
mod store_under_test;

#[cfg(all(feature = "servers", unix))]
pub mod proxy;
#[cfg(all(feature = "servers", unix))]
pub mod rig;
#[cfg(all(feature = "servers", unix))]
pub mod server;

pub use captured_log::CapturedLog;
pub use manual_clock::{ManualClock, Skew};
pub use manual_random::ManualRandom;
pub use manual_timer::ManualTimer;
pub use model::Model;
pub use model_store::ModelStore;
pub use runtime::block_on;
pub use seeded_random::SeededRandom;
pub use store_under_test::StoreUnderTest;

pub use proptest;
pub use tokio;
