use std::convert::Infallible;
use std::marker::PhantomData;
use std::path::Path;

use crate::{Error, Options};

/// A database that is shared by threads.
pub type DB = DBWithThreadMode<MultiThreaded>;

/// Shared by threads.
pub struct MultiThreaded;

/// A database. There never is one, so that its functions need no bodies.
pub struct DBWithThreadMode<M> {
    never: Infallible,
    mode: PhantomData<M>,
}

/// Where an iterator would begin.
pub enum IteratorMode {
    /// At the first key.
    Start,
}

type Pair = (Box<[u8]>, Box<[u8]>);

impl<M> DBWithThreadMode<M> {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn open(_: &Options, _: impl AsRef<Path>) -> Result<Self, Error> {
        Err(Error)
    }

    /// Is never called.
    ///
    /// # Errors
    /// None.
    pub fn get(&self, _: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        match self.never {}
    }

    /// Is never called.
    ///
    /// # Errors
    /// None.
    pub fn merge(&self, _: impl AsRef<[u8]>, _: impl AsRef<[u8]>) -> Result<(), Error> {
        match self.never {}
    }

    /// Is never called.
    ///
    /// # Errors
    /// None.
    pub fn delete(&self, _: impl AsRef<[u8]>) -> Result<(), Error> {
        match self.never {}
    }

    /// Is never called.
    pub fn iterator(&self, _: IteratorMode) -> std::iter::Empty<Result<Pair, Error>> {
        match self.never {}
    }

    /// Is never called.
    pub fn prefix_iterator(&self, _: impl AsRef<[u8]>) -> std::iter::Empty<Result<Pair, Error>> {
        match self.never {}
    }
}
