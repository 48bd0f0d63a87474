//! What a request that is turned away is answered.

mod body;
#[cfg(feature = "tonic")]
mod grpc;
mod problem;
mod rejected;

pub use body::RejectionBody;
#[cfg(feature = "tonic")]
pub(crate) use grpc::is_grpc;
pub use rejected::{Rejection, RejectionReason};
