//! From the bytes of a state to the [`State`] that the math knows. `chain.lua` describes the forms.

use limiter_core::math::{BucketState, CountedWindow, FixedState, State, SubBucket, WindowLog};
use limiter_core::{Rate, Timestamp};

use crate::BadReply;
use crate::reader::Reader;

/// Reads the state of a plan as the field of its key holds it: for those who look into a store.
///
/// # Errors
/// [`BadReply`] if the state is of another version, or damaged. `plan` is named in it.
///
/// # Examples
/// ```
/// use limiter_lua::{BadReply, read_state};
///
/// let (version, plan) = (9, "gold".to_owned());
/// assert_eq!(read_state("gold", b"\x91"), Err(BadReply::UnknownVersion { version, plan }));
/// ```
pub fn read_state(plan: &str, bytes: &[u8]) -> Result<State, BadReply> {
    let mut reader = Reader::new(bytes);
    let state = read(&mut reader).map_err(|unreadable| unreadable.of(plan))?;
    state
        .filter(|_| reader.rest().is_empty())
        .ok_or_else(|| Unreadable::Corrupt.of(plan))
}

/// The version of the state that this library writes and reads, in the high half of the tag: the layout's. What is of
/// another one under a name of this one's is none that a release has written.
pub(crate) const VERSION: u8 = crate::KeyLayout::VERSION;

pub(crate) const COMPACT_BUCKET: u8 = VERSION << 4 | 1;
pub(crate) const SLIDING_WINDOW: u8 = VERSION << 4 | 2;
pub(crate) const SUPPRESSING_WINDOW: u8 = VERSION << 4 | 3;
pub(crate) const FIXED_WINDOW: u8 = VERSION << 4 | 4;
pub(crate) const WIDE_BUCKET: u8 = VERSION << 4 | 5;
pub(crate) const FRACTIONAL_BUCKET: u8 = VERSION << 4 | 7;

/// Why bytes are no state.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    Version(u8),
    Corrupt,
}

impl Unreadable {
    pub(crate) fn of(self, plan: &str) -> BadReply {
        let plan = plan.to_owned();
        match self {
            Self::Version(version) => BadReply::UnknownVersion { version, plan },
            Self::Corrupt => BadReply::Corrupt { plan },
        }
    }
}

const TIME: usize = 7;

/// Reads one state off the front, or the zero byte that stands for none.
pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Option<State>, Unreadable> {
    let tag = reader.take(1).and_then(|tag| tag.first().copied());
    let state = match tag {
        Some(0) => return Ok(None),
        Some(COMPACT_BUCKET) => compact_bucket(reader).map(State::TokenBucket),
        Some(FRACTIONAL_BUCKET) => fractional_bucket(reader).map(State::TokenBucket),
        Some(WIDE_BUCKET) => wide_bucket(reader).map(State::TokenBucket),
        Some(SLIDING_WINDOW) => window_log(reader).map(State::SlidingWindow),
        Some(SUPPRESSING_WINDOW) => window_log(reader).map(State::SuppressingWindow),
        Some(FIXED_WINDOW) => fixed_window(reader).map(State::FixedWindow),
        Some(tag) if tag >> 4 != VERSION => return Err(Unreadable::Version(tag >> 4)),
        Some(_) | None => None,
    };
    state.map(Some).ok_or(Unreadable::Corrupt)
}

fn timestamp(reader: &mut Reader<'_>) -> Option<Timestamp> {
    Timestamp::from_micros(reader.number(TIME)?).ok()
}

fn compact_bucket(reader: &mut Reader<'_>) -> Option<BucketState> {
    let seen = timestamp(reader)?;
    let full_at_us = seen.as_micros() + reader.number(5)?;
    let rate = Rate::from_parts(1, reader.number(4)?)?;
    BucketState::from_parts(seen, full_at_us, 0, rate)
}

fn fractional_bucket(reader: &mut Reader<'_>) -> Option<BucketState> {
    let seen = timestamp(reader)?;
    let debt = reader.number(7)?;
    let rate = Rate::from_parts(1, reader.number(4)?)?;
    BucketState::from_parts(seen, seen.as_micros() + debt / 1024, debt % 1024, rate)
}

fn wide_bucket(reader: &mut Reader<'_>) -> Option<BucketState> {
    let seen = timestamp(reader)?;
    let full_at_us = seen.as_micros().checked_add(reader.number(TIME)?)?;
    let part = reader.number(5)?;
    let rate = Rate::from_parts(reader.small()?, reader.number(6)?)?;
    BucketState::from_parts(seen, full_at_us, part, rate)
}

/// The bit of the units of a fixed window that says that another one follows.
const ANOTHER_FOLLOWS: u32 = 1 << 31;

fn fixed_window(reader: &mut Reader<'_>) -> Option<FixedState> {
    let mut windows = Vec::new();
    let mut another_follows = true;
    while another_follows {
        let (began, ends_at_us) = (timestamp(reader)?, reader.number(TIME)?);
        let used: u32 = reader.small()?;
        another_follows = used & ANOTHER_FOLLOWS != 0;
        windows.push(CountedWindow {
            began,
            ends_at_us,
            used: used & !ANOTHER_FOLLOWS,
        });
    }
    FixedState::from_windows(windows)
}

/// Reads a log: its sub-buckets go on until their units make its total.
fn window_log(reader: &mut Reader<'_>) -> Option<WindowLog> {
    let seen = timestamp(reader)?;
    let newest_began = timestamp(reader)?;
    let total = reader.number(TIME)?;
    let kept_us = reader.number(6)?;
    let mut log = Vec::with_capacity(reader.rest().len() / 11);
    let mut sum = 0;
    while sum < total {
        let came_at_us = reader.number(TIME)?;
        let units = reader.small().filter(|&units| units > 0)?;
        sum += u64::from(units);
        log.push(SubBucket { came_at_us, units });
    }
    WindowLog::from_parts(seen, newest_began, kept_us, log).filter(|_| sum == total && total > 0)
}
