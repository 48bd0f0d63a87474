//! The deadline: a store that does not answer in time has failed.

mod deadline_repository;

pub use deadline_repository::{DeadlinePassed, DeadlineRepository};
