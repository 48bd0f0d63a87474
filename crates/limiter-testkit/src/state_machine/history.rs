//! [`History`]: what happens to a store, one step after the other.

use std::fmt;
use std::time::Duration;

use limiter_core::Limit;
use proptest::prelude::*;

use super::limits;

/// Plans, and what happens to a store that is asked about them. Prints as a readable story.
#[derive(Clone, Debug)]
pub struct History {
    /// The limits that the plans start with. The nth plan is called `plan-n`.
    pub limits: Vec<Limit>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Step {
    /// The store is called.
    Call {
        /// Which call.
        call: Call,
        /// Which of a few keys, by number.
        key: u8,
        /// Which plans, by number, in this order; each names a plan and says whether it is in shadow.
        chain: Vec<(usize, bool)>,
        /// The cost, which is cut to what the chain can admit; [`u32::MAX`] is left as it is, and is refused.
        cost: u32,
        /// The random bits that the store draws.
        bits: u64,
    },
    /// The clock goes on.
    Wait(Wait),
    /// The clock steps back, at most to one second before the latest time it showed.
    StepBack(Duration),
    /// A plan gets another limit.
    Change {
        /// Which plan, by number.
        plan: usize,
        /// Its limit from now on.
        limit: Limit,
    },
    /// The store frees what is outlived.
    ForgetIdle,
}

/// Which call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `try_acquire`.
    Acquire,
    /// `peek`.
    Peek,
    /// `refund` of an earlier charge, which the random bits choose: key and plans are that charge's.
    Refund,
    /// `reset`.
    Reset,
}

/// How far the clock goes on.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// This far.
    For(Duration),
    /// As far as the last answer told to wait, and one microsecond less or more.
    Retry(i8),
    /// Until one plan of the last answer is as good as unused, and one microsecond less or more.
    Reset(i8),
    /// This many thousandths of the window of one of the plans.
    PartOfWindow {
        /// Which plan, by number.
        plan: usize,
        /// How many thousandths.
        thousandths: u32,
    },
    /// As long as increments of one of the plans share a sub-bucket, and one microsecond less or more.
    Granularity {
        /// Which plan, by number.
        plan: usize,
        /// How many microseconds more.
        off_by: i8,
    },
}

/// The plans that a history can name.
const PLANS_MAX: usize = 4;

/// Returns random histories: up to four plans that change, three keys, sixty steps.
pub fn histories() -> impl Strategy<Value = History> {
    let limits_at_first = prop::collection::vec(limits(), 1..=PLANS_MAX);
    let steps = prop::collection::vec(steps(), 1..=60);
    (limits_at_first, steps).prop_map(|(limits, steps)| History { limits, steps })
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        24 => calls(),
        9 => waits().prop_map(Step::Wait),
        2 => (0..=1_000_000_u64).prop_map(|us| Step::StepBack(Duration::from_micros(us))),
        2 => changes(),
        1 => Just(Step::ForgetIdle),
    ]
}

fn calls() -> impl Strategy<Value = Step> {
    let call = prop_oneof![
        14 => Just(Call::Acquire),
        3 => Just(Call::Peek),
        3 => Just(Call::Refund),
        1 => Just(Call::Reset),
    ];
    let key = prop_oneof![5 => Just(0_u8), 1 => Just(1), 1 => Just(2)];
    let in_shadow = prop::bool::weighted(0.15);
    let link = (0..PLANS_MAX, in_shadow);
    let chain = prop_oneof![
        3 => prop::collection::vec(link.clone(), 1),
        2 => prop::collection::vec(link, 1..=PLANS_MAX),
    ];
    let cost = prop_oneof![
        10 => 1..=3_u32,
        4 => 4..=12_u32,
        2 => 13..=1_000_000_000_u32,
        1 => Just(u32::MAX),
    ];
    let bits = prop_oneof![Just(0), Just(u64::MAX), any::<u64>()];
    (call, key, chain, cost, bits).prop_map(|(call, key, chain, cost, bits)| Step::Call {
        call,
        key,
        chain,
        cost,
        bits,
    })
}

fn waits() -> impl Strategy<Value = Wait> {
    let part = (0..PLANS_MAX, 0..=1_100_u32);
    let shared = (0..PLANS_MAX, -1..=1_i8);
    prop_oneof![
        2 => shared.prop_map(|(plan, off_by)| Wait::Granularity { plan, off_by }),
        3 => (-1..=1_i8).prop_map(Wait::Retry),
        2 => (-1..=1_i8).prop_map(Wait::Reset),
        4 => part.prop_map(|(plan, thousandths)| Wait::PartOfWindow { plan, thousandths }),
        2 => (1..=50_u64).prop_map(|us| Wait::For(Duration::from_micros(us))),
        2 => (1..=2_000_000_u64).prop_map(|us| Wait::For(Duration::from_micros(us))),
        1 => (1..=10 * 86_400_000_000_u64).prop_map(|us| Wait::For(Duration::from_micros(us))),
    ]
}

fn changes() -> impl Strategy<Value = Step> {
    (0..PLANS_MAX, limits()).prop_map(|(plan, limit)| Step::Change { plan, limit })
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the history was:")?;
        for (nth, limit) in self.limits.iter().enumerate() {
            writeln!(f, "  plan-{nth}: {limit}")?;
        }
        for (nth, step) in self.steps.iter().enumerate() {
            match step {
                Step::Change { plan, limit } => writeln!(f, "  {nth}. plan-{plan}: {limit}")?,
                other => writeln!(f, "  {nth}. {other:?}")?,
            }
        }
        Ok(())
    }
}
