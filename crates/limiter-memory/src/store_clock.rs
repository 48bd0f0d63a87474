//! [`StoreClock`]: what a store is told the time by.

use std::sync::Arc;

use limiter_core::{Clock, Timestamp};

use crate::SystemClock;

/// What a store is told the time by: nearly always the system's clock, which is then asked with no detour.
///
/// To read it and to make a moment of what was read are two steps. Only the first is at the moment that counts; the second
/// can wait until the processor has to wait anyway.
pub(crate) enum StoreClock {
    System(SystemClock),
    Given(Arc<dyn Clock>),
}

/// What a clock showed: a count of its own.
#[derive(Clone, Copy)]
pub(crate) struct Reading(u64);

impl StoreClock {
    pub(crate) fn new(given: Option<Arc<dyn Clock>>) -> Self {
        given.map_or_else(|| Self::System(SystemClock::new()), Self::Given)
    }

    #[inline]
    pub(crate) fn read(&self) -> Reading {
        Reading(match self {
            Self::System(clock) => clock.ticks(),
            Self::Given(clock) => clock.now().as_micros(),
        })
    }

    /// Returns the moment of a reading of this clock.
    #[inline]
    pub(crate) fn moment(&self, Reading(count): Reading) -> Timestamp {
        match self {
            Self::System(clock) => clock.moment(count),
            Self::Given(_) => Timestamp::from_micros(count).unwrap_or(Timestamp::MAX),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.moment(self.read())
    }
}
