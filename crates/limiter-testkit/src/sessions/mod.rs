//! What stores of sessions, nonces, IP signals and anomalies are held to: laws, a model of plain maps, and a state machine.

pub mod laws;
mod model;
mod model_store;
mod session_laws;
pub mod state_machine;
mod store_under_test;

pub use model::SessionModel;
pub use model_store::SessionModelStore;
pub use store_under_test::SessionStoreUnderTest;
