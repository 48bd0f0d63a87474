//! Limits: which algorithm, with which numbers.

mod checked;
mod fixed_window;
mod invalid_limit;
mod rate;
mod sliding_window;
mod suppressing_window;
mod text;
mod token_bucket;
mod window;

pub(crate) use checked::checked_period;
pub use fixed_window::{FixedRule, FixedWindow};
pub use invalid_limit::InvalidLimit;
pub use rate::Rate;
pub use sliding_window::SlidingWindow;
pub use suppressing_window::{SuppressingRule, SuppressingWindow};
pub(crate) use text::PeriodText;
pub use token_bucket::{BucketRule, TokenBucket};
pub(crate) use window::MAX_SUB_BUCKETS;
pub use window::WindowRule;

/// The most units that a limit may have.
pub const MAX_UNITS: u32 = 1_000_000_000;

/// A checked limit: which algorithm, with which numbers.
///
/// Made from [`TokenBucket`], [`SlidingWindow`], [`SuppressingWindow`] or [`FixedWindow`] with `try_from`, or from text.
/// The text form reads back as the same limit.
///
/// | text | limit |
/// |---|---|
/// | `10/s` | token bucket of 10, refilled with 10 a second |
/// | `10/s burst 20` | the same with room for 20 |
/// | `5.5/s` | token bucket of 5, refilled with 11 in 2 seconds |
/// | `sliding 1000/24h` | at most 1000 in every 24 hours |
/// | `sliding 5.5/s over 10s` | at most 55 in every 10 seconds |
/// | `sliding 100/min every 1s` | sub-buckets of a second |
/// | `suppressing 100/10s hard 150` | suppressing window |
/// | `fixed 100/min` | fixed window |
///
/// What is refused, whichever way it comes in: numbers, as the tables of [`TokenBucket`], [`SlidingWindow`],
/// [`SuppressingWindow`], [`FixedWindow`] and [`Rate`] say. And of texts:
///
/// | text | answer |
/// |---|---|
/// | empty, or without an amount: `10`, `sliding`, `10 per second` | [`InvalidLimit::Text`] |
/// | an amount or a period that is none, as at [`Rate`]: `x/s`, `10/y` | [`InvalidLimit::Text`] |
/// | an algorithm that there is not, `leaky 10/s` | [`InvalidLimit::Text`] |
/// | an option that there is not, `10/s size 5`, or that the algorithm has not, `fixed 10/s burst 5` | [`InvalidLimit::Text`] |
/// | an option twice, `10/s burst 5 burst 6` | [`InvalidLimit::Text`] |
/// | an option without a value, `10/s burst`, or with another kind of one, `10/s burst x`, `10/s burst +5`, `sliding 10/s every 5` | [`InvalidLimit::Text`] |
/// | numbers out of bounds: `0/s`, `10/s burst 0`, `10/400d`, `1/366d burst 1000` | as for the numbers |
/// | a window over which the rate is not whole, `sliding 5.5/s over 1s` | [`InvalidLimit::NotWhole`] |
///
/// # Examples
/// ```
/// use limiter_core::Limit;
///
/// let limit: Limit = "10/s burst 20".parse()?;
/// assert_eq!(limit.max_cost(), 20);
/// assert_eq!(limit.to_string(), "10/s burst 20");
/// assert!("10 per second".parse::<Limit>().is_err());
/// # Ok::<(), limiter_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "String", into = "String")
)]
#[non_exhaustive]
pub enum Limit {
    /// A burst, and a steady refill.
    TokenBucket(BucketRule),
    /// At most so many units in every stretch of time.
    SlidingWindow(WindowRule),
    /// A soft limit that refuses more and more, up to a hard one.
    SuppressingWindow(SuppressingRule),
    /// So many units from the first request on, then again.
    FixedWindow(FixedRule),
}

impl Limit {
    /// Returns the units that the limit is called by: capacity, limit or soft limit.
    #[must_use]
    pub const fn units(&self) -> u32 {
        match self {
            Self::TokenBucket(rule) => rule.capacity(),
            Self::SlidingWindow(rule) => rule.limit(),
            Self::SuppressingWindow(rule) => rule.soft().limit(),
            Self::FixedWindow(rule) => rule.limit(),
        }
    }

    /// Returns the largest cost that this limit can promise to admit at all.
    ///
    /// For a suppressing window that is the soft limit: above it, no wait makes a request certain.
    #[must_use]
    pub const fn max_cost(&self) -> u32 {
        self.units()
    }

    /// Returns how long the limit's units are spread over: the window, or the time in which an empty bucket fills.
    #[must_use]
    pub fn window(&self) -> std::time::Duration {
        let micros = match self {
            Self::TokenBucket(rule) => rule.fill_us(),
            Self::SlidingWindow(rule) => rule.window_us(),
            Self::SuppressingWindow(rule) => rule.soft().window_us(),
            Self::FixedWindow(rule) => rule.window_us(),
        };
        std::time::Duration::from_micros(micros)
    }

    /// Returns whether a plan may keep its state when its limit changes from `other` to this one.
    #[must_use]
    pub const fn is_same_algorithm(&self, other: &Self) -> bool {
        matches!(
            (self, other),
            (Self::TokenBucket(_), Self::TokenBucket(_))
                | (Self::SlidingWindow(_), Self::SlidingWindow(_))
                | (Self::SuppressingWindow(_), Self::SuppressingWindow(_))
                | (Self::FixedWindow(_), Self::FixedWindow(_))
        )
    }
}

impl TryFrom<TokenBucket> for Limit {
    type Error = InvalidLimit;

    fn try_from(asked: TokenBucket) -> Result<Self, InvalidLimit> {
        asked.try_into().map(Self::TokenBucket)
    }
}

impl TryFrom<SlidingWindow> for Limit {
    type Error = InvalidLimit;

    fn try_from(asked: SlidingWindow) -> Result<Self, InvalidLimit> {
        asked.try_into().map(Self::SlidingWindow)
    }
}

impl TryFrom<SuppressingWindow> for Limit {
    type Error = InvalidLimit;

    fn try_from(asked: SuppressingWindow) -> Result<Self, InvalidLimit> {
        asked.try_into().map(Self::SuppressingWindow)
    }
}

impl TryFrom<FixedWindow> for Limit {
    type Error = InvalidLimit;

    fn try_from(asked: FixedWindow) -> Result<Self, InvalidLimit> {
        asked.try_into().map(Self::FixedWindow)
    }
}

impl TryFrom<&str> for Limit {
    type Error = InvalidLimit;

    fn try_from(text: &str) -> Result<Self, InvalidLimit> {
        text.parse()
    }
}

impl TryFrom<String> for Limit {
    type Error = InvalidLimit;

    fn try_from(text: String) -> Result<Self, InvalidLimit> {
        text.parse()
    }
}

impl From<Limit> for String {
    fn from(limit: Limit) -> Self {
        limit.to_string()
    }
}
