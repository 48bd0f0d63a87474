//! The fallback: a local store that stands in, with a stated share of each limit.

mod fallback_repository;
mod local_failure;
mod share;
mod shares;

pub use fallback_repository::{FallbackRepository, LocalStore};
pub(crate) use local_failure::LocalFailure;
pub use share::{InvalidShare, Share, ShareTooSmall};
