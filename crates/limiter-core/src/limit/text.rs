//! Limits as text: what `parse` reads and `to_string` writes.
//!
//! ```text
//! limit     = [algorithm " "] amount "/" period { " " option }
//! algorithm = "bucket" (the default) | "sliding" | "suppressing" | "fixed"
//! amount    = whole number, or a decimal with up to 6 places
//! period    = [whole number] ("us" | "ms" | "s" | "min" | "m" | "h" | "d")
//! option    = "burst" number   (bucket)        | "over" period (windows, with a decimal amount)
//!           | "every" period   (sliding, suppressing: granularity) | "hard" number (suppressing)
//! ```

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{
    FixedWindow, InvalidLimit, Limit, Rate, SlidingWindow, SuppressingWindow, TokenBucket,
    WindowRule,
};

/// Units of time, longest first; a day is written as hours unless there are at least two.
const UNITS: [(u64, &str); 6] = [
    (86_400_000_000, "d"),
    (3_600_000_000, "h"),
    (60_000_000, "min"),
    (1_000_000, "s"),
    (1_000, "ms"),
    (1, "us"),
];

pub(super) fn refuse(text: &str, problem: &'static str) -> InvalidLimit {
    InvalidLimit::Text {
        text: text.chars().take(64).collect(),
        problem,
    }
}

/// Writes a period as its longest whole unit.
pub(crate) struct PeriodText {
    pub(super) micros: u64,
    /// Writes one second as `s` and not as `1s`.
    pub(super) bare_unit: bool,
}

impl PeriodText {
    /// Writes `micros` with its number, also if that is one.
    pub(crate) const fn of(micros: u64) -> Self {
        let bare_unit = false;
        Self { micros, bare_unit }
    }
}

impl fmt::Display for PeriodText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |&&(unit_us, unit): &&(u64, &str)| {
            self.micros.is_multiple_of(unit_us) && (unit != "d" || self.micros > unit_us)
        };
        let (unit_us, unit) = UNITS.iter().find(fits).copied().unwrap_or((1, "us"));
        match self.micros / unit_us {
            1 if self.bare_unit => f.write_str(unit),
            count => write!(f, "{count}{unit}"),
        }
    }
}

/// Reads a whole number: digits and nothing else, not even a sign.
pub(super) fn parse_number(text: &str) -> Option<u32> {
    let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| all_digits)
}

/// Reads a period such as `s`, `24h` or `250ms`; `text` is the whole limit, for the error.
pub(super) fn parse_period(text: &str, period: &str) -> Result<Duration, InvalidLimit> {
    let digits = period.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = period.split_at_checked(digits).unwrap_or((period, ""));
    let count: u64 = match count {
        "" => 1,
        count => count
            .parse()
            .map_err(|_| refuse(text, "the period's number is too large"))?,
    };
    let unit = if unit == "m" { "min" } else { unit };
    let unit_us = UNITS
        .iter()
        .find(|(_, name)| *name == unit)
        .map(|(unit_us, _)| *unit_us);
    let unit_us =
        unit_us.ok_or_else(|| refuse(text, "the period ends in none of us, ms, s, min, h, d"))?;
    let micros = count
        .checked_mul(unit_us)
        .ok_or_else(|| refuse(text, "the period's number is too large"))?;
    Ok(Duration::from_micros(micros))
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TokenBucket(rule) => {
                write!(f, "{}", rule.stated_rate())?;
                if rule.capacity() == rule.stated_rate().natural_burst() {
                    return Ok(());
                }
                write!(f, " burst {}", rule.capacity())
            }
            Self::SlidingWindow(rule) => {
                write!(f, "sliding {}", WindowText(rule))?;
                write!(f, "{}", GranularityText(rule))
            }
            Self::SuppressingWindow(rule) => {
                write!(
                    f,
                    "suppressing {} hard {}",
                    WindowText(rule.soft()),
                    rule.hard()
                )?;
                write!(f, "{}", GranularityText(rule.soft()))
            }
            Self::FixedWindow(rule) => {
                write!(
                    f,
                    "fixed {}/{}",
                    rule.limit(),
                    PeriodText {
                        micros: rule.window_us(),
                        bare_unit: true
                    }
                )
            }
        }
    }
}

struct WindowText<'a>(&'a WindowRule);

impl fmt::Display for WindowText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}",
            self.0.limit(),
            PeriodText {
                micros: self.0.window_us(),
                bare_unit: true
            }
        )
    }
}

struct GranularityText<'a>(&'a WindowRule);

impl fmt::Display for GranularityText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.has_default_granularity() {
            return Ok(());
        }
        write!(
            f,
            " every {}",
            PeriodText {
                micros: self.0.granularity_us(),
                bare_unit: false
            }
        )
    }
}

/// The options of a text, each at most once.
#[derive(Default)]
struct Options {
    burst: Option<u32>,
    over: Option<Duration>,
    every: Option<Duration>,
    hard: Option<u32>,
}

impl Options {
    fn parse<'a>(
        text: &str,
        mut words: impl Iterator<Item = &'a str>,
    ) -> Result<Self, InvalidLimit> {
        let mut options = Self::default();
        while let Some(word) = words.next() {
            let value = words
                .next()
                .ok_or_else(|| refuse(text, "an option has no value"))?;
            let number = || {
                parse_number(value).ok_or_else(|| refuse(text, "an option's value is no number"))
            };
            let repeated = match word {
                "burst" => options.burst.replace(number()?).is_some(),
                "hard" => options.hard.replace(number()?).is_some(),
                "over" => options.over.replace(parse_period(text, value)?).is_some(),
                "every" => options.every.replace(parse_period(text, value)?).is_some(),
                _ => {
                    return Err(refuse(
                        text,
                        "an option is none of burst, over, every, hard",
                    ));
                }
            };
            if repeated {
                return Err(refuse(text, "an option is given twice"));
            }
        }
        Ok(options)
    }

    /// Refuses options that the algorithm does not have.
    fn only(&self, text: &str, allowed: &[&str]) -> Result<(), InvalidLimit> {
        let given = [
            ("burst", self.burst.is_some()),
            ("over", self.over.is_some()),
            ("every", self.every.is_some()),
            ("hard", self.hard.is_some()),
        ];
        let foreign = given
            .iter()
            .any(|(name, given)| *given && !allowed.contains(name));
        if foreign {
            return Err(refuse(text, "an option does not belong to this algorithm"));
        }
        Ok(())
    }
}

impl FromStr for Limit {
    type Err = InvalidLimit;

    fn from_str(text: &str) -> Result<Self, InvalidLimit> {
        let mut words = text.split_ascii_whitespace().peekable();
        let algorithm = words
            .next_if(|word| !word.contains('/'))
            .unwrap_or("bucket");
        let amount = words
            .next()
            .ok_or_else(|| refuse(text, "there is no amount such as 10/s"))?;
        let rate: Rate = amount.parse().map_err(|error| in_whole_text(text, error))?;
        let options = Options::parse(text, words)?;
        match algorithm {
            "bucket" => {
                options.only(text, &["burst"])?;
                let bucket = TokenBucket::at(rate);
                options
                    .burst
                    .map_or(bucket, |burst| bucket.with_capacity(burst))
                    .try_into()
            }
            "sliding" => {
                options.only(text, &["over", "every"])?;
                let (units, window) = units_in_window(rate, &options)?;
                let sliding = SlidingWindow::new(units, window);
                options
                    .every
                    .map_or(sliding, |every| sliding.with_granularity(every))
                    .try_into()
            }
            "suppressing" => {
                options.only(text, &["over", "every", "hard"])?;
                let (units, window) = units_in_window(rate, &options)?;
                let soft = SuppressingWindow::new(units, window);
                let soft = options
                    .every
                    .map_or(soft, |every| soft.with_granularity(every));
                options
                    .hard
                    .map_or(soft, |hard| soft.with_hard_limit(hard))
                    .try_into()
            }
            "fixed" => {
                options.only(text, &["over"])?;
                let (units, window) = units_in_window(rate, &options)?;
                FixedWindow::new(units, window).try_into()
            }
            _ => Err(refuse(
                text,
                "the algorithm is none of bucket, sliding, suppressing, fixed",
            )),
        }
    }
}

fn units_in_window(rate: Rate, options: &Options) -> Result<(u32, Duration), InvalidLimit> {
    let window = options
        .over
        .unwrap_or(Duration::from_micros(rate.period_us()));
    let units = rate.units_in(window)?;
    let units = u32::try_from(units).map_err(|_| InvalidLimit::Units {
        what: "limit",
        units,
    })?;
    Ok((units, window))
}

/// Names the whole text in an error about its amount.
fn in_whole_text(text: &str, error: InvalidLimit) -> InvalidLimit {
    match error {
        InvalidLimit::Text { problem, .. } => refuse(text, problem),
        other => other,
    }
}
