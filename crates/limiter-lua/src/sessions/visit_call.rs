//! The calls of `visit.lua`, and what its replies mean.

use std::net::IpAddr;

use limiter_core::Timestamp;
use limiter_sessions::{
    BY_FINGERPRINT_MAX, BotProbability, Fingerprint, Locator, Observed, Retention, Session,
    SessionId, TagKey, Visit, VisitTags, VisitorIp,
};

use super::names::SessionNames;
use super::script_call::ScriptCall;
use crate::Script;
use crate::entry::{Packed, push};
use crate::reader::Reader;

/// No probability was told.
const UNTOLD: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
enum Op {
    Observe = 0,
    Touch = 1,
    End = 2,
    Signals = 3,
}

/// A visit, for the scripts: its names, its tags and what it tells.
pub(super) struct VisitCall<'a> {
    pub(super) names: SessionNames<'a>,
    pub(super) keys: &'a TagKey,
    pub(super) tags: VisitTags,
    pub(super) visit: &'a Visit,
    pub(super) retention: Retention,
}

impl VisitCall<'_> {
    /// Makes the call that finds or begins the session; where all keys may go together, it counts in the signals as well.
    pub(super) fn observe(&self, fresh: &SessionId, together: bool) -> ScriptCall {
        let session = self.names.session(&self.tags.locator);
        let signals = together.then(|| self.names.address(self.keys, self.visit.ip));
        let keys = session.into_iter().chain(signals.into_iter().flatten());
        self.call(Op::Observe, false, keys, own(fresh))
    }

    /// Makes the call that counts in the signals alone.
    pub(super) fn signals(&self, is_new: bool) -> ScriptCall {
        let keys = self.names.address(self.keys, self.visit.ip);
        self.call(Op::Signals, is_new, keys, &[])
    }

    fn call(
        &self,
        op: Op,
        is_new: bool,
        keys: impl IntoIterator<Item = Vec<u8>>,
        own: &[u8],
    ) -> ScriptCall {
        let VisitTags {
            fingerprint,
            locator,
        } = &self.tags;
        let packed = packed(op, is_new, self.retention, self.visit.bot_probability);
        let country = self.visit.country.map(|country| country.as_str().into());
        let args = [
            packed.to_vec(),
            own.to_vec(),
            self.visit.fingerprint.as_bytes().to_vec(),
            octets(self.visit.ip),
            country.unwrap_or_default(),
            common(locator),
            more_of(fingerprint).to_vec(),
            fingerprint.to_vec(),
        ];
        ScriptCall::new(Script::Visit, keys, args)
    }
}

/// Makes the call that counts a request of the session called `id`.
pub(super) fn touch(names: SessionNames<'_>, id: &SessionId, retention: Retention) -> ScriptCall {
    by_id(Op::Touch, names, id, retention)
}

/// Makes the call that ends the session called `id`.
pub(super) fn end(names: SessionNames<'_>, id: &SessionId) -> ScriptCall {
    by_id(Op::End, names, id, Retention::HOUR)
}

fn by_id(op: Op, names: SessionNames<'_>, id: &SessionId, retention: Retention) -> ScriptCall {
    let place = TagKey::locator(id);
    let packed = packed(op, false, retention, None);
    let args = [
        packed.to_vec(),
        own(id).to_vec(),
        Vec::new(),
        Vec::new(),
        Vec::new(),
        common(&place),
        Vec::new(),
        Vec::new(),
    ];
    ScriptCall::new(Script::Visit, names.session(&place), args)
}

fn packed(op: Op, is_new: bool, retention: Retention, bot: Option<BotProbability>) -> Packed {
    let mut packed = Packed::new();
    push(&mut packed, 1, op as u64);
    push(&mut packed, 1, is_new.into());
    push(&mut packed, 6, super::micros(retention));
    push(
        &mut packed,
        4,
        bot.map_or(UNTOLD, BotProbability::ppm).into(),
    );
    push(&mut packed, 2, BY_FINGERPRINT_MAX as u64);
    packed
}

/// Returns the bytes of an id that are its own.
pub(super) fn own(id: &SessionId) -> &[u8] {
    id.as_bytes().get(11..).unwrap_or_default()
}

/// Returns what all ids of a place have in common.
fn common(place: &Locator) -> Vec<u8> {
    [&place.group[..], &place.member].concat()
}

/// Returns what the members of an index have of the fingerprint's tag, beside what the ids have.
pub(super) fn more_of(fingerprint: &[u8; 16]) -> &[u8] {
    fingerprint.get(5..9).unwrap_or_default()
}

fn octets(ip: VisitorIp) -> Vec<u8> {
    match ip.get() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// Reads an address, as [`octets`] writes it.
pub(super) fn read_ip(octets: &[u8]) -> Option<VisitorIp> {
    let ip = match octets.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(octets).ok()?),
        _ => IpAddr::from(<[u8; 16]>::try_from(octets).ok()?),
    };
    VisitorIp::new(ip).ok()
}

/// Reads the session that `visit.lua` replied with; `None` if the reply is none of the script's.
pub(super) fn read(reply: &[u8], place: &Locator) -> Option<Observed> {
    let mut reader = Reader::new(reply);
    let (is_new, in_signals) = (reader.number(1)? == 1, reader.number(1)? == 1);
    let [first_seen, last_seen, expires_at] = [
        read_moment(&mut reader)?,
        read_moment(&mut reader)?,
        read_moment(&mut reader)?,
    ];
    let request_count = reader.number(7)?;
    let bot_probability = match reader.small()? {
        UNTOLD => None,
        ppm => Some(BotProbability::from_ppm(ppm).ok()?),
    };
    let country = match reader.counted()? {
        [] => None,
        country => Some(std::str::from_utf8(country).ok()?.parse().ok()?),
    };
    let ip = read_ip(reader.counted()?)?;
    let fingerprint = Fingerprint::from_bytes(reader.take(32)?.try_into().ok()?);
    let id = [&common(place)[..], reader.take(5)?].concat();
    let mut session = Session::begin(
        SessionId::from_bytes(id.try_into().ok()?),
        &Visit::new(fingerprint, ip),
        first_seen,
        Retention::HOUR,
    );
    session.last_seen = last_seen;
    session.expires_at = expires_at;
    session.request_count = request_count;
    session.bot_probability = bot_probability;
    session.country = country;
    let is_whole = reader.rest().is_empty();
    is_whole.then(|| Observed::new(session, is_new, in_signals))
}

pub(super) fn read_moment(reader: &mut Reader<'_>) -> Option<Timestamp> {
    Timestamp::from_micros(reader.number(7)?).ok()
}
