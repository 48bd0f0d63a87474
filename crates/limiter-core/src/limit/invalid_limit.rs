//! [`InvalidLimit`]: why numbers make no limit.

use crate::limit::{MAX_SUB_BUCKETS, MAX_UNITS};

/// Says why numbers or a text make no [`Limit`](crate::Limit), and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidLimit {
    /// A number of units is zero or too large.
    #[error("{what} is {units}: 1 to {MAX_UNITS} is allowed")]
    Units {
        /// Which number: `capacity`, `refill`, `limit`, ...
        what: &'static str,
        /// The number given.
        units: u64,
    },
    /// A period is too short or too long.
    #[error("{what} is {micros} us: 1 ms to 366 days is allowed")]
    Period {
        /// Which period: `period` or `window`.
        what: &'static str,
        /// The period given, in microseconds.
        micros: u128,
    },
    /// A period has parts of a microsecond.
    #[error("{what} has {nanos} ns beyond whole microseconds: give whole microseconds")]
    PartOfAMicrosecond {
        /// Which period.
        what: &'static str,
        /// The nanoseconds too many.
        nanos: u32,
    },
    /// The bucket would need longer to fill than exact arithmetic reaches.
    #[error(
        "an empty bucket would take more than 142 years to fill: lower the capacity or raise the refill"
    )]
    FillsTooSlowly,
    /// A rate over a window is no whole number of units.
    #[error(
        "{units} units in {period_us} us are no whole number of units in a window of {window_us} us: choose a multiple"
    )]
    NotWhole {
        /// Units of the rate.
        units: u32,
        /// Microseconds of the rate's period.
        period_us: u64,
        /// Microseconds of the window.
        window_us: u64,
    },
    /// The granularity is zero or longer than the window.
    #[error("granularity is {micros} us: 1 us to the window's {window_us} us is allowed")]
    Granularity {
        /// The granularity given, in microseconds.
        micros: u128,
        /// Microseconds of the window.
        window_us: u64,
    },
    /// The granularity would keep too many sub-buckets for one key.
    #[error(
        "granularity of {micros} us keeps more than {MAX_SUB_BUCKETS} sub-buckets: use {least_us} us or more"
    )]
    TooFine {
        /// The granularity given, in microseconds.
        micros: u64,
        /// The finest granularity allowed here, in microseconds.
        least_us: u64,
    },
    /// The hard limit is below the soft one.
    #[error("hard limit is {hard}: at least the soft limit of {soft} is allowed")]
    HardBelowSoft {
        /// The soft limit.
        soft: u32,
        /// The hard limit given.
        hard: u32,
    },
    /// A text is not of the form of a limit.
    #[error(
        "{text:?} is no limit: {problem}; write such as \"10/s\", \"10/s burst 20\", \"sliding 1000/24h\" or \"5.5/s\""
    )]
    Text {
        /// The text, or its beginning.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}
