//! The abuse limiter in HTTP: attempts, blocks and what forgives.

mod attempt;
mod future;
mod layer;
mod ledger;
mod outcome;
mod service;
mod settings;

pub use attempt::Attempt;
pub use future::AbuseFuture;
pub use layer::{AbuseLayer, AbuseLayerBuilder};
pub use outcome::AttemptOutcome;
pub use service::AbuseService;
pub use settings::Counting;
