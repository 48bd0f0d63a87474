//! Stands in for RocksDB: as much as limitador's disk storage needs to be compiled, and a database that never opens.

mod database;
mod error;
mod options;

pub use database::{DB, DBWithThreadMode, IteratorMode, MultiThreaded};
pub use error::{Error, ErrorKind};
pub use options::{CompactionDecision, DBCompressionType, MergeOperands, Options};
