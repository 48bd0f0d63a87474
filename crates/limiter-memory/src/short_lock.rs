//! [`ShortLock`]: a lock for what takes well under a microsecond.

#[cfg(shuttle)]
use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(shuttle))]
use spin::mutex::{SpinMutex as Mutex, SpinMutexGuard as MutexGuard};

#[cfg(not(shuttle))]
use crate::sync::look_again;

/// How often others are let run before a thread sleeps,
#[cfg(not(shuttle))]
const YIELDS: u32 = 32;
/// and for how long it does: about as long as it takes the system to fall asleep and wake.
#[cfg(not(shuttle))]
const NAP: std::time::Duration = std::time::Duration::from_micros(50);

/// A lock for what takes well under a microsecond.
///
/// It is given back by a plain write: nobody sleeps on it whom the holder would have to wake. A lock of the system costs one
/// more atomic exchange for that, at which a processor stops until all that it has begun is done.
pub(crate) struct ShortLock<T>(Mutex<T>);

pub(crate) type ShortGuard<'lock, T> = MutexGuard<'lock, T>;

impl<T> ShortLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> ShortGuard<'_, T> {
        self.try_lock().unwrap_or_else(|| self.wait())
    }

    /// Locks unless somebody else holds the lock.
    #[cfg(not(shuttle))]
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<ShortGuard<'_, T>> {
        self.0.try_lock()
    }

    /// Locks unless somebody else holds the lock.
    #[cfg(shuttle)]
    pub(crate) fn try_lock(&self) -> Option<ShortGuard<'_, T>> {
        self.0.try_lock().ok()
    }

    /// Waits for the lock: looks, then lets others run, then sleeps. A holder that is still at it has been interrupted, and
    /// must get a core, be it the one that a thread of a higher priority waits on.
    #[cfg(not(shuttle))]
    #[cold]
    fn wait(&self) -> ShortGuard<'_, T> {
        let mut found = look_again(|| self.try_lock());
        let mut yields = 0;
        loop {
            if let Some(guard) = found {
                return guard;
            }
            if yields < YIELDS {
                yields += 1;
                std::thread::yield_now();
            } else {
                std::thread::sleep(NAP);
            }
            found = self.try_lock();
        }
    }

    #[cfg(shuttle)]
    fn wait(&self) -> ShortGuard<'_, T> {
        let locked = self.0.lock();
        locked.unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
