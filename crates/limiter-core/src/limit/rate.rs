//! [`Rate`]: units per period.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::checked::{checked_period, checked_units};
use super::text::{PeriodText, parse_number, parse_period, refuse};
use super::{InvalidLimit, MAX_UNITS};
use crate::period::MAX_PERIOD_US;

/// How many units come in which period: `10/s`, `1000/24h`, `5.5/s`.
///
/// Exact: a rate is a whole number of units (1 to 10^9) in a whole number of microseconds (1 ms to 366 days). A fraction
/// is written over a longer period, so `5.5/s` is 11 units in 2 seconds, and is printed back as `5.5/s`.
///
/// | input | answer |
/// |---|---|
/// | 0 units, or more than 10^9 | [`InvalidLimit::Units`] |
/// | period below 1 ms or above 366 days | [`InvalidLimit::Period`] |
/// | period with parts of a microsecond | [`InvalidLimit::PartOfAMicrosecond`] |
/// | a fraction that needs more than 10^9 units to be whole, `1000.000001/s` | [`InvalidLimit::Units`] |
/// | a fraction that needs more than 366 days to be whole, `1.0001/d` | [`InvalidLimit::Period`] |
/// | no `/`, as in `10`; no number before it, as in `/s`, `-1/s`, `+1/s`, `1e3/s`, `5000000000/s` | [`InvalidLimit::Text`] |
/// | digits missing beside the point, `.5/s`, `5./s`; more than 6 decimals | [`InvalidLimit::Text`] |
/// | a period in no unit that there is, `10/`, `10/y`, or of more than 64 bits | [`InvalidLimit::Text`] |
///
/// # Examples
/// ```
/// use limiter_core::Rate;
///
/// for text in ["10/s", "1000/24h", "5.5/s", "1/2h"] {
///     assert_eq!(text.parse::<Rate>()?.to_string(), text);
/// }
/// assert!("0/s".parse::<Rate>().is_err());
/// # Ok::<(), limiter_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    units: u32,
    period_us: u64,
}

const SECOND_US: u64 = 1_000_000;
/// The units that a fractional rate is written in, with their names.
const DECIMAL_UNITS: [(u64, &str); 4] = [
    (SECOND_US, "s"),
    (60 * SECOND_US, "min"),
    (3600 * SECOND_US, "h"),
    (86_400 * SECOND_US, "d"),
];
const MAX_DECIMALS: u32 = 6;

impl Rate {
    /// Checks and keeps `units` per `period`.
    ///
    /// # Errors
    /// [`InvalidLimit`] if `units` is 0 or more than 10^9, or `period` is not whole microseconds from 1 ms to 366 days.
    pub fn new(units: u32, period: Duration) -> Result<Self, InvalidLimit> {
        Self::checked("rate", units, period)
    }

    pub(crate) fn checked(
        what: &'static str,
        units: u32,
        period: Duration,
    ) -> Result<Self, InvalidLimit> {
        let units = checked_units(what, u64::from(units))?;
        Ok(Self {
            units,
            period_us: checked_period("period", period)?,
        })
    }

    /// Returns how many units come in one [`Rate::period_us`].
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// Returns the microseconds in which [`Rate::units`] come.
    #[must_use]
    pub const fn period_us(&self) -> u64 {
        self.period_us
    }

    /// Returns the same rate in its smallest numbers.
    #[must_use]
    pub(crate) fn reduced(self) -> Self {
        let common = gcd(u64::from(self.units), self.period_us);
        let units = u64::from(self.units) / common;
        Self {
            units: u32::try_from(units).unwrap_or(self.units),
            period_us: self.period_us / common,
        }
    }

    /// Puts a rate together again from the numbers that a store kept, which may be smaller than users may ask for.
    ///
    /// `None` if they are none that a checked rate can be reduced to: a store that reads them holds a corrupt value.
    #[must_use]
    pub fn from_parts(units: u32, period_us: u64) -> Option<Self> {
        let sound = (1..=MAX_UNITS).contains(&units) && (1..=MAX_PERIOD_US).contains(&period_us);
        sound.then_some(Self { units, period_us })
    }

    /// Returns the burst that a bucket of this rate gets if none is named: what one period brings, whole units only.
    pub(crate) fn natural_burst(&self) -> u32 {
        self.decimal().map_or(self.units, |decimal| decimal.whole)
    }

    /// Returns how many units come in `window`, if they are whole.
    pub(crate) fn units_in(&self, window: Duration) -> Result<u64, InvalidLimit> {
        let window_us = checked_period("window", window)?;
        let product = u128::from(self.units) * u128::from(window_us);
        let period = u128::from(self.period_us);
        u64::try_from(product / period)
            .ok()
            .filter(|_| product.is_multiple_of(period))
            .ok_or(InvalidLimit::NotWhole {
                units: self.units,
                period_us: self.period_us,
                window_us,
            })
    }

    /// Returns the rate as a decimal per second, minute, hour or day, if it is one that reads back as this same rate.
    fn decimal(&self) -> Option<Decimal> {
        DECIMAL_UNITS.iter().find_map(|&(unit_us, unit)| {
            let scale = 10u128.pow(MAX_DECIMALS);
            let scaled = u128::from(self.units) * u128::from(unit_us) * scale;
            let period = u128::from(self.period_us);
            if !scaled.is_multiple_of(period) {
                return None;
            }
            let value = scaled / period;
            let whole = u32::try_from(value / scale)
                .ok()
                .filter(|&whole| whole > 0)?;
            let millionths = u32::try_from(value % scale).ok().filter(|&part| part > 0)?;
            let reads_back = Self::from_millionths(value, unit_us).ok()? == *self;
            reads_back.then_some(Decimal {
                whole,
                millionths,
                unit,
            })
        })
    }

    /// Returns the rate of `millionths` of a unit per `unit_us`, over the shortest multiple of it that is exact.
    fn from_millionths(millionths: u128, unit_us: u64) -> Result<Self, InvalidLimit> {
        let scale = 10u128.pow(MAX_DECIMALS);
        let common = gcd(u64::try_from(millionths % scale).unwrap_or(0), 1_000_000);
        let units = u64::try_from(millionths / u128::from(common)).unwrap_or(u64::MAX);
        let units = checked_units("rate", units)?;
        let period = u128::from(unit_us) * (scale / u128::from(common));
        let period = u64::try_from(period).map_err(|_| InvalidLimit::Period {
            what: "period",
            micros: period,
        })?;
        Ok(Self {
            units,
            period_us: checked_period("period", Duration::from_micros(period))?,
        })
    }
}

struct Decimal {
    whole: u32,
    millionths: u32,
    unit: &'static str,
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decimal() {
            Some(Decimal {
                whole,
                millionths,
                unit,
            }) => {
                let digits = format!("{millionths:06}");
                write!(f, "{whole}.{}/{unit}", digits.trim_end_matches('0'))
            }
            None => write!(
                f,
                "{}/{}",
                self.units,
                PeriodText {
                    micros: self.period_us,
                    bare_unit: true
                }
            ),
        }
    }
}

impl FromStr for Rate {
    type Err = InvalidLimit;

    fn from_str(text: &str) -> Result<Self, InvalidLimit> {
        let (amount, period) = text
            .split_once('/')
            .ok_or_else(|| refuse(text, "there is no '/'"))?;
        let period = parse_period(text, period)?;
        match amount.split_once('.') {
            None => {
                let units = parse_number(amount)
                    .ok_or_else(|| refuse(text, "the amount is no number up to 1000000000"))?;
                Self::new(units, period)
            }
            Some((whole, decimals)) => {
                let period_us = checked_period("period", period)?;
                Self::from_millionths(parse_millionths(text, whole, decimals)?, period_us)
            }
        }
    }
}

fn parse_millionths(text: &str, whole: &str, decimals: &str) -> Result<u128, InvalidLimit> {
    let all_digits =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(whole) || !all_digits(decimals) {
        return Err(refuse(text, "the amount is no decimal number"));
    }
    if decimals.len() > 6 {
        return Err(refuse(text, "the amount has more than 6 decimals"));
    }
    let digits = format!("{whole}{decimals:0<6}");
    digits
        .parse()
        .map_err(|_| refuse(text, "the amount is no number up to 1000000000"))
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
