//! A chain of plans, decided in one step: all or nothing.

use std::time::Duration;

use smallvec::SmallVec;

use super::{Draw, State};
use crate::{Cost, Plan, PlanVerdict, Source, Timestamp, Verdict};

/// Decides one request under all of `plans` and updates `states`: one place for each plan, in the same order.
///
/// Either every enforced plan admits the request and all plans are charged, or none is. A shadow plan is charged with the
/// others if it has room, and never denies. A denied request is still observed by suppressing windows.
///
/// Pure: the same arguments give the same answer.
pub fn decide(
    plans: &[Plan],
    states: &mut [Option<State>],
    now: Timestamp,
    cost: Cost,
    draw: Draw,
) -> Verdict {
    let mut answers = look(plans, states, now, cost, draw);
    let admitted = enforced(plans, &answers).all(|answer| answer.admits);
    for ((plan, state), answer) in plans.iter().zip(states.iter_mut()).zip(&mut answers) {
        let before = state.take();
        *state = if admitted && answer.admits {
            Some(plan.limit().spend(before, now, cost))
        } else {
            plan.limit().observe_denied(before, now, cost)
        };
    }
    answer(plans, states, now, cost, answers)
}

/// Returns what [`decide`] would answer, and changes nothing. Suppressing windows admit only what is certain to pass.
pub fn peek(plans: &[Plan], states: &[Option<State>], now: Timestamp, cost: Cost) -> Verdict {
    let answers = look(plans, states, now, cost, Draw::LOWEST);
    answer(plans, states, now, cost, answers)
}

/// Gives `cost` back under all of `plans`, at most what was spent, and returns how they stand for a request of `cost`.
pub fn refund(plans: &[Plan], states: &mut [Option<State>], now: Timestamp, cost: Cost) -> Verdict {
    for (plan, state) in plans.iter().zip(states.iter_mut()) {
        *state = plan.limit().refund(state.take(), now, cost);
    }
    peek(plans, states, now, cost)
}

type Answers = SmallVec<[PlanVerdict; 2]>;

fn look(
    plans: &[Plan],
    states: &[Option<State>],
    now: Timestamp,
    cost: Cost,
    draw: Draw,
) -> Answers {
    let look_at = |(plan, state): (&Plan, Option<&State>)| {
        let (admits, suppression) = plan.limit().admits(state, now, cost, draw);
        let restarted = state.is_some_and(|state| {
            !state.belongs_to(plan.limit()) && state.expires_at_us() > now.as_micros()
        });
        PlanVerdict {
            admits,
            suppression,
            restarted,
            ..PlanVerdict::default()
        }
    };
    plans.iter().zip(in_step(states)).map(look_at).collect()
}

/// Fills in how the plans stand now, and when the request would pass if it was denied.
fn answer(
    plans: &[Plan],
    states: &[Option<State>],
    now: Timestamp,
    cost: Cost,
    mut answers: Answers,
) -> Verdict {
    let admitted = enforced(plans, &answers).all(|answer| answer.admits);
    let mut passes_at_us = now.as_micros();
    for ((plan, state), answer) in plans.iter().zip(in_step(states)).zip(&mut answers) {
        answer.remaining = plan.limit().remaining(state, now);
        answer.free_after_wait = answer.remaining;
        let known = state.filter(|state| state.belongs_to(plan.limit()));
        answer.reset_after = until(now, known.map_or(0, State::expires_at_us));
        if !admitted || !answer.admits {
            let plan_passes_at_us = plan.limit().admits_at_us(state, now, cost);
            answer.retry_after = until(now, plan_passes_at_us);
            if plan.is_enforced() {
                passes_at_us = passes_at_us.max(plan_passes_at_us);
            }
        }
    }
    let retry_after = if admitted {
        Duration::ZERO
    } else {
        until(now, passes_at_us)
    };
    if !admitted {
        let then = now.looking_ahead(retry_after);
        for ((plan, state), answer) in plans.iter().zip(in_step(states)).zip(&mut answers) {
            answer.free_after_wait = plan.limit().remaining(state, then);
        }
    }
    Verdict {
        source: Source::Store,
        admitted,
        retry_after,
        plans: answers,
    }
}

fn enforced<'a>(plans: &'a [Plan], answers: &'a Answers) -> impl Iterator<Item = &'a PlanVerdict> {
    plans
        .iter()
        .zip(answers)
        .filter(|(plan, _)| plan.is_enforced())
        .map(|(_, answer)| answer)
}

/// Yields the states one by one, then `None` for ever, so that a short slice cannot cut a chain short.
fn in_step(states: &[Option<State>]) -> impl Iterator<Item = Option<&State>> {
    states
        .iter()
        .map(Option::as_ref)
        .chain(std::iter::repeat(None))
}

fn until(now: Timestamp, moment_us: u64) -> Duration {
    Duration::from_micros(moment_us.saturating_sub(now.as_micros()))
}
