//! [`Severity`]: how bad an anomaly is.

use std::fmt;
use std::str::FromStr;

/// How bad an anomaly is. Each severity has a feed of its own.
///
/// # Examples
/// ```
/// use limiter_sessions::Severity;
///
/// assert_eq!("high".parse::<Severity>()?, Severity::High);
/// assert!("severe".parse::<Severity>().is_err());
/// # Ok::<(), limiter_sessions::InvalidSeverity>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth a look when there is time.
    Low,
    /// Worth a look.
    Medium,
    /// Somebody should act.
    High,
    /// Somebody should act now.
    Critical,
}

impl Severity {
    /// All of them, the mildest first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Critical];

    /// Returns the name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

impl FromStr for Severity {
    type Err = InvalidSeverity;

    fn from_str(text: &str) -> Result<Self, InvalidSeverity> {
        let named = |severity: &Self| severity.as_str() == text;
        Self::ALL.into_iter().find(named).ok_or(InvalidSeverity)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Says that a text is no [`Severity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("severity is not known: it is low, medium, high or critical")]
pub struct InvalidSeverity;
