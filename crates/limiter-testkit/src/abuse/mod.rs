//! What stores of attempts and blocks are held to: laws, a model that keeps every attempt, and a state machine.

mod abuse_laws;
pub mod laws;
mod model;
mod model_store;
pub mod state_machine;
mod store_under_test;

pub use model::AbuseModel;
pub use model_store::AbuseModelStore;
pub use store_under_test::AbuseStoreUnderTest;
