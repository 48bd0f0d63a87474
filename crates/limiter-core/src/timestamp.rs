//! [`Timestamp`]: a moment, in whole microseconds.

use std::time::Duration;

/// A moment: whole microseconds since the Unix epoch, below 2^52 (the year 2112).
///
/// The bound keeps every sum of a moment and a wait below 2^53, where the numbers of Lua are exact.
///
/// | input | answer |
/// |---|---|
/// | 0 to 2^52 - 1 | the moment |
/// | 2^52 and later | [`InvalidTimestamp`] |
///
/// # Examples
/// ```
/// use limiter_core::Timestamp;
///
/// let noon = Timestamp::from_micros(1_800_000_000_000_000)?;
/// assert_eq!(noon.as_micros(), 1_800_000_000_000_000);
/// assert!(Timestamp::from_micros(1 << 52).is_err());
/// # Ok::<(), limiter_core::InvalidTimestamp>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);
    /// The last moment there is.
    pub const MAX: Self = Self((1 << 52) - 1);

    /// Checks and keeps `micros` since the Unix epoch.
    ///
    /// # Errors
    /// [`InvalidTimestamp`] if `micros` is 2^52 or more.
    pub const fn from_micros(micros: u64) -> Result<Self, InvalidTimestamp> {
        if micros <= Self::MAX.0 {
            Ok(Self(micros))
        } else {
            Err(InvalidTimestamp { micros })
        }
    }

    /// Returns the microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Returns the moment `wait` later, at most [`Timestamp::MAX`]. Parts of a microsecond are dropped.
    #[must_use]
    pub fn saturating_add(self, wait: Duration) -> Self {
        let wait = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(wait).min(Self::MAX.0))
    }

    /// Returns the moment `wait` later, be it beyond [`Timestamp::MAX`]: only to look ahead, never to be kept.
    pub(crate) fn looking_ahead(self, wait: Duration) -> Self {
        let wait = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(wait))
    }

    /// Returns the moment `span` earlier, at least [`Timestamp::EPOCH`]. Parts of a microsecond are dropped.
    #[must_use]
    pub fn saturating_sub(self, span: Duration) -> Self {
        let span = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(span))
    }

    /// Returns how long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// Says that a moment lies beyond [`Timestamp::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{micros} us since the epoch is no usable time: a timestamp is below 2^52 us (the year 2112)"
)]
pub struct InvalidTimestamp {
    micros: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_kept_or_refused() {
        for micros in [0, 1, 1 << 31, (1 << 52) - 1] {
            assert_eq!(Timestamp::from_micros(micros).unwrap().as_micros(), micros);
        }
        for micros in [1 << 52, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, u64::MAX] {
            assert_eq!(
                Timestamp::from_micros(micros),
                Err(InvalidTimestamp { micros })
            );
        }
    }

    #[test]
    fn sums_and_differences_are_of_whole_microseconds() {
        let (early, late) = (Timestamp(3), Timestamp(5));
        let wait = Duration::from_nanos(2_999);
        assert_eq!(early.saturating_add(wait), late);
        assert_eq!(late.saturating_sub(wait), early);
        assert_eq!(late.since(early), Duration::from_micros(2));
    }

    #[test]
    fn sums_and_differences_saturate() {
        assert_eq!(Timestamp::MAX.saturating_add(Duration::MAX), Timestamp::MAX);
        assert_eq!(
            Timestamp::EPOCH.saturating_sub(Duration::MAX),
            Timestamp::EPOCH
        );
        assert_eq!(Timestamp::EPOCH.since(Timestamp::MAX), Duration::ZERO);
    }
}
