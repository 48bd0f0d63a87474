//! The checks that every limit shares: units and periods within their bounds.

use std::time::Duration;

use super::{InvalidLimit, MAX_UNITS};
use crate::period::{MAX_PERIOD_US, MIN_PERIOD_US};

pub(crate) fn checked_units(what: &'static str, units: u64) -> Result<u32, InvalidLimit> {
    u32::try_from(units)
        .ok()
        .filter(|units| (1..=MAX_UNITS).contains(units))
        .ok_or(InvalidLimit::Units { what, units })
}

pub(crate) fn checked_period(what: &'static str, period: Duration) -> Result<u64, InvalidLimit> {
    let nanos = period.subsec_nanos() % 1_000;
    if nanos != 0 {
        return Err(InvalidLimit::PartOfAMicrosecond { what, nanos });
    }
    let micros = period.as_micros();
    u64::try_from(micros)
        .ok()
        .filter(|micros| (MIN_PERIOD_US..=MAX_PERIOD_US).contains(micros))
        .ok_or(InvalidLimit::Period { what, micros })
}
