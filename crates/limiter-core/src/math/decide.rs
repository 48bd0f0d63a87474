//! A chain of plans, decided in one step: all or nothing.

use std::time::Duration;

use smallvec::SmallVec;

use super::{ChargePart, Draw, State};
use crate::{Cost, Limit, Plan, PlanVerdict, Refund, Source, Timestamp, Verdict};

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
    let mut verdict = look(plans, states, now, cost, draw);
    let admitted = verdict.admitted;
    for ((plan, state), answer) in plans.iter().zip(states.iter_mut()).zip(&mut verdict.plans) {
        let spends = admitted && answer.admits;
        charge(plan, state, spends, now, cost);
        answer.charged_at = state
            .as_ref()
            .filter(|_| spends)
            .map(|state| state.as_of(now));
    }
    complete(&mut verdict, plans, states, now, cost);
    verdict
}

/// Returns what [`decide`] would answer, and changes nothing. Suppressing windows admit only what is certain to pass.
pub fn peek(plans: &[Plan], states: &[Option<State>], now: Timestamp, cost: Cost) -> Verdict {
    let mut verdict = look(plans, states, now, cost, Draw::LOWEST);
    complete(&mut verdict, plans, states, now, cost);
    verdict
}

/// Gives units of one charge back under those of `plans` that it was made under, and returns how all of them then stand for a
/// request of one unit.
pub fn refund(
    plans: &[Plan],
    states: &mut [Option<State>],
    now: Timestamp,
    refund: &Refund,
) -> Verdict {
    let charged = plans.iter().zip(&refund.charged_at);
    for ((plan, charged_at), state) in charged.zip(states.iter_mut()) {
        if let Some(charged_at) = charged_at {
            let part = ChargePart::new(*charged_at, refund);
            *state = plan.limit().refund(state.take(), now, part);
        }
    }
    peek(plans, states, now, Cost::ONE)
}

/// Says who admits the request. How the plans stand is left to [`complete`], which fills it in where it is: a verdict is
/// large, and to move it costs more than the math.
fn look(
    plans: &[Plan],
    states: &[Option<State>],
    now: Timestamp,
    cost: Cost,
    draw: Draw,
) -> Verdict {
    let mut verdict = Verdict {
        source: Source::Store,
        admitted: true,
        retry_after: Duration::ZERO,
        plans: SmallVec::new(),
    };
    for (plan, state) in plans.iter().zip(in_step(states)) {
        let answer = look_at(plan, state, now, cost, draw);
        verdict.admitted &= answer.admits || !plan.is_enforced();
        verdict.plans.push(answer);
    }
    verdict
}

#[inline]
fn look_at(
    plan: &Plan,
    state: Option<&State>,
    now: Timestamp,
    cost: Cost,
    draw: Draw,
) -> PlanVerdict {
    let (admits, suppression) = plan.limit().admits(state, now, cost, draw);
    PlanVerdict {
        admits,
        suppression,
        restarted: state.is_some_and(|state| {
            !state.belongs_to(plan.limit()) && state.expires_at_us() > now.as_micros()
        }),
        ..PlanVerdict::default()
    }
}

#[inline]
fn charge(plan: &Plan, state: &mut Option<State>, spends: bool, now: Timestamp, cost: Cost) {
    if spends || matches!(plan.limit(), Limit::SuppressingWindow(_)) {
        plan.limit().spend(state, now, cost);
    }
}

/// Fills in how a plan stands now.
#[inline]
fn stand(answer: &mut PlanVerdict, plan: &Plan, state: Option<&State>, now: Timestamp) {
    answer.remaining = plan.limit().remaining(state, now);
    answer.free_after_wait = answer.remaining;
    let unused_from_us = state.map_or(0, |state| plan.limit().unused_from_us(state));
    answer.reset_after = until(now, unused_from_us);
}

/// Fills in how the plans stand now, and when the request would pass if it was denied.
fn complete(
    verdict: &mut Verdict,
    plans: &[Plan],
    states: &[Option<State>],
    now: Timestamp,
    cost: Cost,
) {
    let mut passes_at_us = now.as_micros();
    for ((plan, state), answer) in plans.iter().zip(in_step(states)).zip(&mut verdict.plans) {
        stand(answer, plan, state, now);
        if !verdict.admitted || !answer.admits {
            let plan_passes_at_us = plan.limit().admits_at_us(state, now, cost);
            answer.retry_after = until(now, plan_passes_at_us);
            if plan.is_enforced() {
                passes_at_us = passes_at_us.max(plan_passes_at_us);
            }
        }
    }
    if verdict.admitted {
        return;
    }
    verdict.retry_after = until(now, passes_at_us);
    let then = now.looking_ahead(verdict.retry_after);
    for ((plan, state), answer) in plans.iter().zip(in_step(states)).zip(&mut verdict.plans) {
        answer.free_after_wait = plan.limit().remaining(state, then);
    }
}

/// Yields the states one by one, then `None` for ever, so that a short slice cannot cut a chain short.
fn in_step(states: &[Option<State>]) -> impl Iterator<Item = Option<&State>> {
    states
        .iter()
        .map(Option::as_ref)
        .chain(std::iter::repeat(None))
}

pub(super) fn until(now: Timestamp, moment_us: u64) -> Duration {
    Duration::from_micros(moment_us.saturating_sub(now.as_micros()))
}
