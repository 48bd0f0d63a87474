//! [`StoredAttempts`]: what a key of the abuse limiter holds, for those who look into a store.

use std::collections::BTreeMap;

use limiter_core::{PlanName, Timestamp};

use crate::BadReply;
use crate::reader::Reader;
use crate::state::{Unreadable, VERSION};

/// What a key of the abuse limiter holds. `abuse.lua` describes the form.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredAttempts {
    /// The microsecond since the epoch from which on the state means nothing.
    pub expires_at_us: u64,
    /// The tier of the block in force or of the last one, and the microsecond at which it ends.
    pub block: Option<(PlanName, u64)>,
    /// When each attempt that is kept came, the oldest first.
    pub attempts: Vec<Timestamp>,
}

const ATTEMPTS: u8 = VERSION << 4 | 6;
/// How many attempts share a field, and how many bytes one takes in it.
const CHUNK: u64 = 72;
const ATTEMPT: usize = 7;

impl StoredAttempts {
    /// Reads the fields of a key, each a name and a value; `policy` is named in errors.
    ///
    /// # Errors
    /// [`BadReply`] if the state is of another version, or damaged.
    ///
    /// # Examples
    /// ```
    /// use limiter_lua::{BadReply, StoredAttempts};
    ///
    /// let (version, plan) = (9, "login".to_owned());
    /// let stored = StoredAttempts::read("login", [(&b"state"[..], &b"\x96"[..])]);
    /// assert_eq!(stored, Err(BadReply::UnknownVersion { version, plan }));
    /// ```
    pub fn read<'a>(
        policy: &str,
        fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<Self, BadReply> {
        let mut chunks: BTreeMap<_, _> = fields.into_iter().collect();
        let state = chunks.remove(&b"state"[..]).unwrap_or_default();
        let unreadable = match state.first() {
            Some(tag) if tag >> 4 != VERSION => Unreadable::Version(tag >> 4),
            _ => Unreadable::Corrupt,
        };
        read_sound(&mut Reader::new(state), &chunks).ok_or_else(|| unreadable.of(policy))
    }
}

fn read_sound(reader: &mut Reader<'_>, chunks: &BTreeMap<&[u8], &[u8]>) -> Option<StoredAttempts> {
    let tag = reader.number(1)?;
    let _seen = reader.number(7)?;
    let expires_at_us = reader.number(7)?;
    let _strikes_and_started = reader.number(2)?;
    let _since = reader.number(7)?;
    let ends_at_us = reader.number(7)?;
    let first = reader.number(6)?;
    let count = reader.number(2)?;
    let named = usize::try_from(reader.number(1)?).ok()?;
    let scope = std::str::from_utf8(reader.take(named)?).ok()?;
    let block = match ends_at_us {
        0 => None,
        _ => Some((PlanName::new(scope).ok()?, ends_at_us)),
    };
    let coming = first.checked_add(count)?;
    let attempts = (first..coming).map(|attempt| came(attempt, coming, chunks));
    let stored = StoredAttempts {
        expires_at_us,
        block,
        attempts: attempts.collect::<Option<_>>()?,
    };
    (tag == u64::from(ATTEMPTS) && reader.rest().is_empty()).then_some(stored)
}

/// Reads when the attempt of that number came. Its chunk ends with the last attempt before `coming` that is in it.
fn came(attempt: u64, coming: u64, chunks: &BTreeMap<&[u8], &[u8]>) -> Option<Timestamp> {
    let number = attempt / CHUNK;
    let name = u16::try_from(number % (1 << 16)).ok()?;
    let chunk = chunks.get(&name.to_be_bytes()[..])?;
    let from_there_on = coming.min((number + 1) * CHUNK) - attempt;
    let place = chunk
        .len()
        .checked_sub(usize::try_from(from_there_on).ok()? * ATTEMPT)?;
    let micros = Reader::new(chunk.get(place..)?).number(ATTEMPT)?;
    Timestamp::from_micros(micros).ok()
}
