//! [`read_session`]: a session out of the fields of its hash.

use std::collections::BTreeMap;

use limiter_core::Timestamp;
use limiter_sessions::{BotProbability, Fingerprint, Retention, Session, SessionId, Visit};

use super::visit_call::{own, read_ip};
use crate::state::VERSION;
use crate::{BadReply, Reply};

/// Reads the session called `id` out of the fields and values that `HGETALL` replied; `None` if there is no such session.
///
/// # Errors
/// [`BadReply`] if the session is of another version, or damaged.
pub fn read_session(id: &SessionId, reply: &Reply) -> Result<Option<Session>, BadReply> {
    let fields: BTreeMap<&[u8], &Reply> = reply
        .parts()
        .chunks_exact(2)
        .filter_map(|pair| Some((pair.first()?.bytes()?, pair.get(1)?)))
        .collect();
    let Some(stored) = fields.get(&b"id"[..]).and_then(|stored| stored.bytes()) else {
        return Ok(None);
    };
    let plan = || "session".to_owned();
    match stored.split_first() {
        Some((&version, _)) if version != VERSION => Err(BadReply::UnknownVersion {
            version,
            plan: plan(),
        }),
        Some((_, stored)) if stored.starts_with(own(id)) => {
            let corrupt = || BadReply::Corrupt { plan: plan() };
            read_fields(id, &fields).map(Some).ok_or_else(corrupt)
        }
        _ => Ok(None),
    }
}

fn read_fields(id: &SessionId, fields: &BTreeMap<&[u8], &Reply>) -> Option<Session> {
    let field = |name: &str| fields.get(name.as_bytes()).copied();
    let moment = |name| Timestamp::from_micros(field(name)?.number()?).ok();
    let fingerprint: [u8; 32] = field("fingerprint")?.bytes()?.try_into().ok()?;
    let visit = Visit::new(
        Fingerprint::from_bytes(fingerprint),
        read_ip(field("ip")?.bytes()?)?,
    );
    let mut session = Session::begin(*id, &visit, moment("first_seen")?, Retention::HOUR);
    session.last_seen = moment("last_seen")?;
    session.expires_at = moment("expires")?;
    session.request_count = field("request_count")?.number()?;
    session.bot_probability = match field("bot_probability") {
        None => None,
        Some(told) => {
            let ppm = u32::try_from(told.number()?).ok()?;
            Some(BotProbability::from_ppm(ppm).ok()?)
        }
    };
    session.country = match field("geo_country") {
        None => None,
        Some(country) => Some(country.text()?.parse().ok()?),
    };
    Some(session)
}
