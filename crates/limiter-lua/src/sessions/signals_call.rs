//! What the reply of `signals.lua` means.

use limiter_sessions::{BotProbability, IpSignal};

use super::visit_call::read_moment;
use crate::reader::Reader;

/// Reads the signals of an address; `None` if the reply is none of the script's.
pub(super) fn read(reply: &[u8]) -> Option<IpSignal> {
    let mut reader = Reader::new(reply);
    let seen = (read_moment(&mut reader)?, read_moment(&mut reader)?);
    let (sessions, uniques) = (reader.number(7)?, reader.number(7)?);
    let (bot_sum, bot_count) = (reader.number(7)?, reader.number(7)?);
    let mean = BotProbability::mean(bot_sum, bot_count);
    let is_whole = reader.rest().is_empty();
    is_whole.then(|| IpSignal::new(seen, sessions, uniques, mean))
}
