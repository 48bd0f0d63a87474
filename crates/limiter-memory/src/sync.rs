//! Locks and atomics: those of std, or under `--cfg shuttle` those whose interleavings the tests explore.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};

use std::hint::spin_loop;
use std::sync::{PoisonError, TryLockError};

/// Locks `mutex`. A holder that panicked left whole entries behind, so its lock is taken over.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    try_lock(mutex).unwrap_or_else(|| wait_for(mutex))
}

/// Between two looks at a lock, these powers of two of pauses: about half a microsecond at first, some microseconds in all.
const PAUSES: std::ops::Range<u32> = 5..9;

/// Waits for a lock. It is held for a microsecond or so, so to look again soon is cheaper than to sleep and be woken.
#[cold]
fn wait_for<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    look_again(|| try_lock(mutex))
        .unwrap_or_else(|| mutex.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Looks for a lock again some times. Not too soon, and less and less often: each look takes the lock's cache line away from
/// the holder, who meanwhile may well decide several requests at the price of one move of the line.
pub(crate) fn look_again<G>(look: impl Fn() -> Option<G>) -> Option<G> {
    PAUSES.into_iter().find_map(|pauses| {
        for _ in 0..1_u32 << pauses {
            spin_loop();
        }
        look()
    })
}

/// Locks `mutex` unless somebody else holds it.
#[inline]
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
