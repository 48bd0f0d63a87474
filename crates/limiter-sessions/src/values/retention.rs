//! [`Retention`]: how long something is kept.

use std::time::Duration;

/// How long something is kept after it was last seen: whole microseconds, from a second to 366 days.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use limiter_sessions::Retention;
///
/// assert_eq!(Retention::HOUR, Retention::new(Duration::from_secs(3600))?);
/// assert!(Retention::new(Duration::ZERO).is_err());
/// # Ok::<(), limiter_sessions::InvalidRetention>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Retention(Duration);

impl Retention {
    /// Five minutes: how long nonces are remembered if nothing else is said.
    pub const FIVE_MINUTES: Self = Self(Duration::from_mins(5));
    /// An hour: a 24th of the memory that a day takes.
    pub const HOUR: Self = Self(Duration::from_hours(1));
    /// A day: how long sessions are kept if nothing else is said.
    pub const DAY: Self = Self(Duration::from_hours(24));

    const TOO_LONG_S: u64 = 366 * 86_400 + 1;

    /// Checks and keeps `time`. Parts of a microsecond are dropped.
    ///
    /// # Errors
    /// [`InvalidRetention`] if it is shorter than a second or longer than 366 days.
    pub const fn new(time: Duration) -> Result<Self, InvalidRetention> {
        match time.as_secs() {
            0 | Self::TOO_LONG_S.. => Err(InvalidRetention),
            _ => Ok(Self(time)),
        }
    }

    /// Returns the time.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }
}

/// Says that a time is no [`Retention`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("retention is out of range: it is 1 second to 366 days")]
pub struct InvalidRetention;
