use std::fmt;

/// Why there is no database.
#[derive(Debug)]
pub struct Error;

/// What kind of error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// What is asked for does not exist: the only kind that happens here.
    NotSupported,
    /// It took too long.
    TimedOut,
    /// Another time it may work.
    TryAgain,
}

impl Error {
    /// Returns its kind.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        ErrorKind::NotSupported
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is built without RocksDB")
    }
}

impl std::error::Error for Error {}
