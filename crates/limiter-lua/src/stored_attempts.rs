//! [`StoredAttempts`]: what a key of the abuse limiter holds, for those who look into a store.

use limiter_core::{PlanName, Timestamp};

use crate::BadReply;
use crate::reader::Reader;
use crate::state::Unreadable;

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

/// The version of stored attempts, in the high half of the tag.
const VERSION: u8 = 1;
const ATTEMPTS: u8 = VERSION << 4 | 6;

impl StoredAttempts {
    /// Reads the value of a key; `policy` is named in errors.
    ///
    /// # Errors
    /// [`BadReply`] if the value is of another version, or damaged.
    ///
    /// # Examples
    /// ```
    /// use limiter_lua::{BadReply, StoredAttempts};
    ///
    /// let (version, plan) = (9, "login".to_owned());
    /// assert_eq!(StoredAttempts::read("login", b"\x96"), Err(BadReply::UnknownVersion { version, plan }));
    /// ```
    pub fn read(policy: &str, value: &[u8]) -> Result<Self, BadReply> {
        let unreadable = match value.first() {
            Some(tag) if tag >> 4 != VERSION => Unreadable::Version(tag >> 4),
            _ => Unreadable::Corrupt,
        };
        Self::read_sound(&mut Reader::new(value)).ok_or_else(|| unreadable.of(policy))
    }

    fn read_sound(reader: &mut Reader<'_>) -> Option<Self> {
        let tag = reader.number(1)?;
        let _seen = reader.number(7)?;
        let expires_at_us = reader.number(7)?;
        let _strikes_and_started = reader.number(2)?;
        let _since = reader.number(7)?;
        let ends_at_us = reader.number(7)?;
        let named = usize::try_from(reader.number(1)?).ok()?;
        let scope = std::str::from_utf8(reader.take(named)?).ok()?;
        let block = match ends_at_us {
            0 => None,
            _ => Some((PlanName::new(scope).ok()?, ends_at_us)),
        };
        let mut attempts = Vec::with_capacity(reader.rest().len() / 7);
        while !reader.rest().is_empty() {
            attempts.push(Timestamp::from_micros(reader.number(7)?).ok()?);
        }
        let stored = Self {
            expires_at_us,
            block,
            attempts,
        };
        (tag == u64::from(ATTEMPTS)).then_some(stored)
    }
}
