//! [`AbuseCall`]: one call of `abuse.lua`, from a policy to the verdict.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use limiter_core::{
    AbusePolicy, AbuseVerdict, Block, Escalation, Key, PlanName, Source, TierRule, Timestamp,
    WhileBlocked,
};

use crate::entry::{Packed, push};
use crate::manual_time::ManualTime;
use crate::reader::Reader;
use crate::{BadReply, Job, KeyLayout, Script};

/// One call of `abuse.lua`: on which key, with which arguments, and what its reply means.
///
/// # Examples
/// ```
/// use limiter_core::{AbusePolicy, Key, Tier, minutes};
/// use limiter_lua::{AbuseCall, KeyLayout};
///
/// let login = AbusePolicy::builder("login").tier(Tier::new("temp", 5, minutes(10))).build()?;
/// let call = AbuseCall::record(&KeyLayout::default(), &Key::new("ann")?, &login);
/// assert_eq!((call.name(), call.args().count()), (&b"rl:1:{ann}:login"[..], 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AbuseCall<'a> {
    op: Op,
    name: Vec<u8>,
    packed: Packed,
    policy: &'a AbusePolicy,
    clock: Option<ManualTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Status = 0,
    Record = 1,
    Forgive = 2,
    Unblock = 3,
}

impl<'a> AbuseCall<'a> {
    /// Makes the call that counts an attempt.
    #[must_use]
    pub fn record(layout: &KeyLayout, key: &Key, policy: &'a AbusePolicy) -> Self {
        Self::new(Op::Record, layout, key, policy)
    }

    /// Makes the call that reads the block in force and the counts.
    #[must_use]
    pub fn status(layout: &KeyLayout, key: &Key, policy: &'a AbusePolicy) -> Self {
        Self::new(Op::Status, layout, key, policy)
    }

    /// Makes the call that forgets the attempts.
    #[must_use]
    pub fn forgive(layout: &KeyLayout, key: &Key, policy: &'a AbusePolicy) -> Self {
        Self::new(Op::Forgive, layout, key, policy)
    }

    /// Makes the call that lifts the block; the verdict has the block that was lifted.
    #[must_use]
    pub fn unblock(layout: &KeyLayout, key: &Key, policy: &'a AbusePolicy) -> Self {
        Self::new(Op::Unblock, layout, key, policy)
    }

    fn new(op: Op, layout: &KeyLayout, key: &Key, policy: &'a AbusePolicy) -> Self {
        let mut packed = Packed::new();
        push(&mut packed, 1, op as u64);
        let ignores = policy.while_blocked() == WhileBlocked::Ignore;
        push(&mut packed, 1, ignores.into());
        push(&mut packed, 1, policy.tiers().len() as u64);
        let escalation = policy.escalation();
        push(
            &mut packed,
            1,
            escalation.map_or(0, Escalation::factor).into(),
        );
        push(&mut packed, 6, micros(escalation.map(Escalation::memory)));
        push(&mut packed, 6, micros(escalation.map(Escalation::at_most)));
        for tier in policy.tiers() {
            push(&mut packed, 2, tier.threshold().into());
            push(&mut packed, 6, tier.window_us());
            push(&mut packed, 6, tier.block_us());
        }
        Self {
            op,
            name: layout.name_under(key, policy.name()),
            packed,
            policy,
            clock: None,
        }
    }

    /// Returns the same call, decided at `now` and not at the server's time: for tests, which do not sleep.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        self.clock = Some(ManualTime::new(now));
        self
    }

    /// Returns the script to run.
    #[must_use]
    pub const fn script(&self) -> Script {
        Script::Abuse
    }

    /// Returns the name of the one key that the script touches: its `KEYS[1]`.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the arguments of the script: its `ARGV`.
    pub fn args(&self) -> impl Iterator<Item = &[u8]> {
        let names = self.policy.tiers().iter().map(TierRule::name);
        std::iter::once(self.packed.as_slice())
            .chain(names.map(|name| name.as_str().as_bytes()))
            .chain(self.clock.iter().flat_map(ManualTime::args))
    }

    /// Returns the call as a client sends it.
    #[must_use]
    pub fn job(&self) -> Job<'_> {
        let job = Job::script(self.script(), &self.name).args(self.args().map(Cow::Borrowed));
        if self.writes() { job } else { job.read_only() }
    }

    /// Returns whether the call changes what is stored, so that a failed one may have done so.
    #[must_use]
    pub const fn writes(&self) -> bool {
        !matches!(self.op, Op::Status)
    }

    /// Makes the verdict of what the script replied.
    ///
    /// # Errors
    /// [`BadReply`] if the reply is none of the script's.
    pub fn answer(&self, reply: &[u8]) -> Result<AbuseVerdict, BadReply> {
        let malformed = BadReply::Malformed { len: reply.len() };
        self.read(&mut Reader::new(reply)).ok_or(malformed)
    }

    fn read(&self, reader: &mut Reader<'_>) -> Option<AbuseVerdict> {
        let now_us = reader.number(7)?;
        let started = reader.number(1)? == 1;
        let since = Timestamp::from_micros(reader.number(7)?).ok()?;
        let ends_at_us = reader.number(7)?;
        let counts = self.policy.tiers().iter().map(|_| reader.small());
        let counts = counts.collect::<Option<_>>()?;
        let scope = reader.rest();
        let block = match (ends_at_us, scope.is_empty()) {
            (0, true) => None,
            (0, false) => return None,
            (ends_at_us, _) => Some(Block {
                scope: PlanName::new(std::str::from_utf8(scope).ok()?).ok()?,
                since,
                retry_after: Duration::from_micros(ends_at_us.checked_sub(now_us)?),
            }),
        };
        Some(AbuseVerdict {
            source: Source::Store,
            block,
            started,
            counts,
        })
    }
}

fn micros(period: Option<Duration>) -> u64 {
    period.map_or(0, |period| {
        u64::try_from(period.as_micros()).unwrap_or(u64::MAX)
    })
}

/// The key is left out: it may name a user.
impl fmt::Debug for AbuseCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbuseCall")
            .field("op", &self.op)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use limiter_core::{Tier, minutes};

    #[test]
    fn replies_of_another_form_are_refused() {
        let tier = Tier::new("temp", 5, minutes(10));
        let policy = AbusePolicy::builder("login").tier(tier).build().unwrap();
        let (layout, key) = (KeyLayout::default(), Key::new("ann").unwrap());
        let call = AbuseCall::record(&layout, &key, &policy);
        let mut reply = vec![0; 22];
        reply.extend([0, 0, 0, 3]);
        assert_eq!(call.answer(&reply).unwrap().counts[..], [3]);
        let without_an_end = [&reply[..], b"temp"].concat();
        for bad in [&reply[..25], &reply[..0], &without_an_end] {
            assert_eq!(
                call.answer(bad),
                Err(BadReply::Malformed { len: bad.len() })
            );
        }
    }
}
