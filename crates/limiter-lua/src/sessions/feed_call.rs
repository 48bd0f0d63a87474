//! The calls of `feed.lua`, and what its replies mean.

use limiter_core::Timestamp;
use limiter_sessions::{Anomaly, FEED_MAX, FEED_RETENTION, Label, Reported, SessionId, Severity};

use super::names::SessionNames;
use super::script_call::ScriptCall;
use super::visit_call::read_moment;
use crate::Script;
use crate::entry::{Packed, push};
use crate::reader::Reader;

/// Makes the call that takes an anomaly in.
pub(super) fn push_anomaly(names: SessionNames<'_>, anomaly: &Anomaly) -> ScriptCall {
    let session = anomaly.session().map(|id| id.as_bytes().to_vec());
    let told = [
        anomaly.kind().as_str().into(),
        session.unwrap_or_default(),
        anomaly.note().into(),
    ];
    call(1, names, anomaly.severity(), (Timestamp::EPOCH, 0), told)
}

/// Makes the call that reads the newest.
pub(super) fn recent(
    names: SessionNames<'_>,
    severity: Severity,
    since: Timestamp,
    limit: usize,
) -> ScriptCall {
    call(0, names, severity, (since, limit), Default::default()).listing()
}

fn call(
    op: u64,
    names: SessionNames<'_>,
    severity: Severity,
    (since, limit): (Timestamp, usize),
    told: [Vec<u8>; 3],
) -> ScriptCall {
    let mut packed = Packed::new();
    push(&mut packed, 1, op);
    push(&mut packed, 2, FEED_MAX as u64);
    push(&mut packed, 6, super::micros(FEED_RETENTION));
    push(&mut packed, 7, since.as_micros());
    push(&mut packed, 2, limit.min(FEED_MAX) as u64);
    let args = std::iter::once(packed.to_vec()).chain(told);
    ScriptCall::new(Script::Feed, [names.feed(severity)], args)
}

/// Reads the anomalies that `feed.lua` replied with; `None` if the reply is none of the script's.
pub(super) fn read(reply: &[u8], severity: Severity) -> Option<Vec<Reported>> {
    let mut reader = Reader::new(reply);
    let mut found = Vec::new();
    while !reader.rest().is_empty() {
        let at = read_moment(&mut reader)?;
        let kind = Label::new(std::str::from_utf8(reader.counted()?).ok()?).ok()?;
        let session = reader.counted()?;
        let mut anomaly = Anomaly::new(severity, kind);
        if !session.is_empty() {
            anomaly = anomaly.in_session(SessionId::from_bytes(session.try_into().ok()?));
        }
        let anomaly = anomaly.with_note(std::str::from_utf8(reader.counted()?).ok()?);
        found.push(Reported { at, anomaly });
    }
    Some(found)
}
