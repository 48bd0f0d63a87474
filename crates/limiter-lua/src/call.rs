//! [`Call`]: one call of a script, from plans and a cost to the verdict.

use std::borrow::Cow;
use std::fmt;

use limiter_core::math::{self, Draw, State};
use limiter_core::{
    Cost, InvalidRequest, Key, Limit, Plan, PlanName, Timestamp, Verdict, check_request,
};
use smallvec::SmallVec;

use crate::entry::{Packed, is_compact, push, push_compact_bucket, push_entry};
use crate::manual_time::ManualTime;
use crate::reader::Reader;
use crate::state;
use crate::{BadReply, Job, KeyLayout, Script};

/// One call of a script: which, on which key, with which arguments, and what its reply means.
///
/// # Examples
/// ```
/// use limiter_core::{Cost, Key, Plan, Timestamp, math::Draw};
/// use limiter_lua::{Answer, Call, KeyLayout};
///
/// let (layout, key, plans) = (KeyLayout::default(), Key::new("ann")?, [Plan::new("gold", "10/s")?]);
/// let call = Call::acquire(&layout, &key, &plans, Cost::ONE, Draw::LOWEST)?;
/// assert_eq!((call.name(), call.args().count()), (&b"rl:1:{ann}"[..], 2));
/// let Answer::Verdict(verdict) = call.answer(b"1800000000 250000+\0")? else { unreachable!() };
/// assert_eq!(verdict.plans[0].remaining, 9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Call<'a> {
    op: Op,
    script: Script,
    name: Vec<u8>,
    packed: Packed,
    plans: &'a [Plan],
    cost: Cost,
    draw: Draw,
    clock: Option<ManualTime>,
}

/// What a reply means.
#[derive(Debug)]
pub enum Answer<'a> {
    /// The call was answered.
    Verdict(Verdict),
    /// The script did nothing, for it does not know the form of the state: this other call does.
    Ask(Box<Call<'a>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Peek = 0,
    Acquire = 1,
    Refund = 2,
}

impl<'a> Call<'a> {
    /// Makes the call that spends `cost` if every enforced plan of `plans` allows it.
    ///
    /// # Errors
    /// [`InvalidRequest`] if the call can never be answered.
    pub fn acquire(
        layout: &KeyLayout,
        key: &Key,
        plans: &'a [Plan],
        cost: Cost,
        draw: Draw,
    ) -> Result<Self, InvalidRequest> {
        let call = Self::new(Op::Acquire, layout, key, plans, cost, draw)?;
        Ok(match call.short_way() {
            Some(script) => call.for_token_buckets(script),
            None => call.for_chain(),
        })
    }

    /// Makes the call that says what [`Call::acquire`] would, and changes nothing.
    ///
    /// # Errors
    /// [`InvalidRequest`] if the call can never be answered.
    pub fn peek(
        layout: &KeyLayout,
        key: &Key,
        plans: &'a [Plan],
        cost: Cost,
    ) -> Result<Self, InvalidRequest> {
        Ok(Self::new(Op::Peek, layout, key, plans, cost, Draw::LOWEST)?.for_chain())
    }

    /// Makes the call that gives `cost` back under each of `plans`.
    ///
    /// # Errors
    /// [`InvalidRequest`] if the call can never be answered.
    pub fn refund(
        layout: &KeyLayout,
        key: &Key,
        plans: &'a [Plan],
        cost: Cost,
    ) -> Result<Self, InvalidRequest> {
        Ok(Self::new(Op::Refund, layout, key, plans, cost, Draw::LOWEST)?.for_chain())
    }

    fn new(
        op: Op,
        layout: &KeyLayout,
        key: &Key,
        plans: &'a [Plan],
        cost: Cost,
        draw: Draw,
    ) -> Result<Self, InvalidRequest> {
        check_request(plans, Some(cost))?;
        Ok(Self {
            op,
            script: Script::Chain,
            name: layout.name(key),
            packed: Packed::new(),
            plans,
            cost,
            draw,
            clock: None,
        })
    }

    /// Returns the same call, decided at `now` and not at the server's time: for tests, which do not sleep.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        self.clock = Some(ManualTime::new(now));
        self
    }

    /// Returns the script of few token buckets, if that is what the plans are.
    fn short_way(&self) -> Option<Script> {
        let is_known = |plan: &Plan| match plan.limit() {
            Limit::TokenBucket(rule) => plan.is_enforced() && is_compact(rule),
            _ => false,
        };
        Script::for_token_buckets(self.plans.len()).filter(|_| self.plans.iter().all(is_known))
    }

    fn for_token_buckets(mut self, script: Script) -> Self {
        self.script = script;
        for plan in self.plans {
            if let Limit::TokenBucket(rule) = plan.limit() {
                push_compact_bucket(&mut self.packed, rule, self.cost);
            }
        }
        self
    }

    fn for_chain(mut self) -> Self {
        self.script = Script::Chain;
        self.packed.clear();
        push(&mut self.packed, 1, self.op as u64);
        push(&mut self.packed, 1, self.plans.len() as u64);
        push(&mut self.packed, 3, self.draw.get().into());
        for plan in self.plans {
            push_entry(&mut self.packed, plan, self.cost);
        }
        self
    }

    /// Returns the script to run.
    #[must_use]
    pub const fn script(&self) -> Script {
        self.script
    }

    /// Returns the name of the one key that the script touches: its `KEYS[1]`.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the arguments of the script: its `ARGV`.
    pub fn args(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        let clock = self.clock.iter().flat_map(ManualTime::args);
        std::iter::once(Cow::Borrowed(self.packed.as_slice()))
            .chain(self.plans.iter().map(|plan| field(plan.name())))
            .chain(clock.map(Cow::Borrowed))
    }

    /// Returns the call as a client sends it.
    #[must_use]
    pub fn job(&self) -> Job<'_> {
        let job = Job::script(self.script, &self.name).args(self.args());
        if self.writes() { job } else { job.read_only() }
    }

    /// Returns whether the call changes what is stored, so that a failed one may have done so.
    #[must_use]
    pub const fn writes(&self) -> bool {
        !matches!(self.op, Op::Peek)
    }

    /// Makes the verdict of what the script replied.
    ///
    /// # Errors
    /// [`BadReply`] if the reply is none of the script's, or the state in it is none of this version's.
    pub fn answer(&self, reply: &[u8]) -> Result<Answer<'a>, BadReply> {
        if self.script != Script::Chain && reply == b"?" {
            return Ok(Answer::Ask(Box::new(self.clone().for_chain())));
        }
        let malformed = || BadReply::Malformed { len: reply.len() };
        let mut reader = Reader::new(reply);
        let (now, sign) = moment(&mut reader).ok_or_else(malformed)?;
        let mut states: SmallVec<[Option<State>; 4]> = SmallVec::new();
        for plan in self.plans {
            let state = state::read(&mut reader)
                .map_err(|unreadable| unreadable.of(plan.name().as_str()))?;
            states.push(state);
        }
        if !reader.rest().is_empty() {
            return Err(malformed());
        }
        let verdict = match self.op {
            Op::Peek => math::peek(self.plans, &states, now, self.cost),
            Op::Refund => math::refund(self.plans, &mut states, now, self.cost),
            Op::Acquire => math::decide(self.plans, &mut states, now, self.cost, self.draw),
        };
        if self.op == Op::Acquire && verdict.admitted != (sign == b'+') {
            return Err(BadReply::Disagrees);
        }
        Ok(Answer::Verdict(verdict))
    }
}

/// Reads the time that the script took as now, and the sign after it.
fn moment(reader: &mut Reader<'_>) -> Option<(Timestamp, u8)> {
    let (seconds, _) = reader.digits(|end| end == b' ')?;
    let (micros, sign) = reader.digits(|end| matches!(end, b'+' | b'-'))?;
    let micros = seconds.checked_mul(1_000_000)?.checked_add(micros)?;
    Some((Timestamp::from_micros(micros).ok()?, sign))
}

/// Returns the field that keeps the state of the plan called `name`: the name, without regard to case.
#[must_use]
pub fn field(name: &PlanName) -> Cow<'_, [u8]> {
    let bytes = name.as_str().as_bytes();
    if bytes.iter().any(u8::is_ascii_uppercase) {
        Cow::Owned(bytes.to_ascii_lowercase())
    } else {
        Cow::Borrowed(bytes)
    }
}

/// The key is left out: it may name a user.
impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("op", &self.op)
            .field("script", &self.script)
            .field("plans", &self.plans)
            .finish_non_exhaustive()
    }
}
