//! [`Visit`]: one request of a visitor.

use crate::{BotProbability, Country, Fingerprint, VisitorIp};

/// One request of a visitor, as a detector sees it.
///
/// # Examples
/// ```
/// use limiter_sessions::{BotProbability, Visit};
///
/// let visit = Visit::new("ab".repeat(32).parse()?, "203.0.113.9".parse()?)
///     .with_bot_probability(BotProbability::from_fraction(0.2)?)
///     .with_country("DE".parse()?);
/// assert_eq!(visit.bot_probability.map(|likely| likely.ppm()), Some(200_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Visit {
    /// What the browser looks like.
    pub fingerprint: Fingerprint,
    /// Where the request comes from.
    pub ip: VisitorIp,
    /// How likely a bot sent it, if a detector said so.
    pub bot_probability: Option<BotProbability>,
    /// Where the address is registered, if that is known.
    pub country: Option<Country>,
}

impl Visit {
    /// Makes a visit of which no more is known.
    #[must_use]
    pub const fn new(fingerprint: Fingerprint, ip: VisitorIp) -> Self {
        Self {
            fingerprint,
            ip,
            bot_probability: None,
            country: None,
        }
    }

    /// Says how likely a bot sent it.
    #[must_use]
    pub const fn with_bot_probability(mut self, probability: BotProbability) -> Self {
        self.bot_probability = Some(probability);
        self
    }

    /// Says where the address is registered.
    #[must_use]
    pub const fn with_country(mut self, country: Country) -> Self {
        self.country = Some(country);
        self
    }
}
