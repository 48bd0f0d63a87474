//! [`History`]: what happens to a store of attempts, one step after the other.

use std::fmt;
use std::time::Duration;

use limiter_core::AbusePolicy;
use proptest::prelude::*;

use super::policies;

/// Policies, and what happens to a store that is asked about them. Prints as a readable story.
#[derive(Clone, Debug)]
pub struct History {
    /// The policies, each of a name of its own.
    pub policies: Vec<AbusePolicy>,
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
        /// Which policy, by number.
        policy: usize,
    },
    /// The clock goes on.
    Wait(Wait),
    /// The clock steps back, at most to one second before the latest time it showed.
    StepBack(Duration),
    /// The store frees what is outlived.
    ForgetIdle,
}

/// Which call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `record`, so many times in one microsecond.
    Record(u8),
    /// `status`.
    Status,
    /// `forgive`.
    Forgive,
    /// `unblock`.
    Unblock,
}

/// How far the clock goes on.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// This far.
    For(Duration),
    /// As far as the last block lasts, and one microsecond less or more.
    Block(i8),
    /// For the window of a tier of the last policy, and one microsecond less or more.
    Window {
        /// Which tier, by number.
        tier: usize,
        /// How many microseconds more.
        off_by: i8,
    },
    /// For so many tenths of the escalation's memory, and one microsecond less or more.
    Memory {
        /// How many tenths.
        tenths: u32,
        /// How many microseconds more.
        off_by: i8,
    },
}

/// Returns random histories: up to two policies, three keys, eighty steps.
pub fn histories() -> impl Strategy<Value = History> {
    let policies = (policies("login"), prop::option::of(policies("signup")));
    let steps = prop::collection::vec(steps(), 1..=80);
    (policies, steps).prop_map(|((first, second), steps)| History {
        policies: [Some(first), second].into_iter().flatten().collect(),
        steps,
    })
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        24 => calls(),
        12 => waits().prop_map(Step::Wait),
        2 => (0..=1_000_000_u64).prop_map(|us| Step::StepBack(Duration::from_micros(us))),
        1 => Just(Step::ForgetIdle),
    ]
}

fn calls() -> impl Strategy<Value = Step> {
    let call = prop_oneof![
        12 => Just(Call::Record(1)),
        6 => (2..=8_u8).prop_map(Call::Record),
        3 => Just(Call::Status),
        1 => Just(Call::Forgive),
        1 => Just(Call::Unblock),
    ];
    let key = prop_oneof![5 => Just(0_u8), 1 => Just(1), 1 => Just(2)];
    (call, key, 0..2_usize).prop_map(|(call, key, policy)| Step::Call { call, key, policy })
}

fn waits() -> impl Strategy<Value = Wait> {
    let off_by = -1..=1_i8;
    prop_oneof![
        5 => off_by.clone().prop_map(Wait::Block),
        3 => (0..4_usize, off_by.clone())
            .prop_map(|(tier, off_by)| Wait::Window { tier, off_by }),
        2 => (1..=30_u32, off_by).prop_map(|(tenths, off_by)| Wait::Memory { tenths, off_by }),
        2 => (1..=50_u64).prop_map(|us| Wait::For(Duration::from_micros(us))),
        2 => (1..=2_000_000_u64).prop_map(|us| Wait::For(Duration::from_micros(us))),
        1 => (1..=86_400_000_000_u64).prop_map(|us| Wait::For(Duration::from_micros(us))),
    ]
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the history was:")?;
        for policy in &self.policies {
            let (while_blocked, escalation) = (policy.while_blocked(), policy.escalation());
            writeln!(
                f,
                "  {policy}; {while_blocked:?} while blocked; {escalation:?}"
            )?;
        }
        for (nth, step) in self.steps.iter().enumerate() {
            writeln!(f, "  {nth}. {step:?}")?;
        }
        Ok(())
    }
}
