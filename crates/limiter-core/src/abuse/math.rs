//! The math of attempts, tiers and blocks: policy, state and now to a verdict and the next state.

use smallvec::SmallVec;

use super::escalation::MAX_STRIKES;
use super::state::LastBlock;
use super::{AbusePolicy, AbuseState, AbuseVerdict, Block, MAX_TIERS, WhileBlocked};
use crate::{PlanName, Source, Timestamp};

/// Counts an attempt, and says whether it is turned away.
///
/// - A block in force comes first: it turns the attempt away whatever the counts are.
/// - The attempt that makes a tier's count reach its threshold starts that tier's block, and is itself turned away.
/// - Of blocks that start together, the one that ends last is in force; of those that end together, the harder tier's.
/// - While a block is in force, that of another tier replaces it if it ends later. No tier starts its block twice in one
///   unbroken stretch, so that nobody's block is prolonged by more of the same.
///
/// Pure: the same arguments give the same answer.
pub fn record(policy: &AbusePolicy, slot: &mut Option<AbuseState>, now: Timestamp) -> AbuseVerdict {
    let state = slot.get_or_insert_with(|| AbuseState::new(now));
    let time = state.time(now);
    let blocked = state.in_force(time).is_some();
    if blocked && policy.while_blocked() == WhileBlocked::Ignore {
        return status(policy, slot.as_ref(), now);
    }
    state.seen = time;
    state.add_attempt(policy, time);
    let started = start_blocks(policy, state, time);
    state.settle(policy, time);
    AbuseVerdict {
        started,
        ..status(policy, slot.as_ref(), now)
    }
}

/// Says which block is in force and what the counts are, and changes nothing.
pub fn status(policy: &AbusePolicy, state: Option<&AbuseState>, now: Timestamp) -> AbuseVerdict {
    let count = |window_us| state.map_or(0, |state| state.count(window_us, state.time(now)));
    AbuseVerdict {
        source: Source::Store,
        block: state.and_then(|state| state.block(now)),
        started: false,
        counts: policy
            .tiers()
            .iter()
            .map(|tier| count(tier.window_us()))
            .collect(),
    }
}

/// Forgets the attempts, as after a success. A block in force stays, and so do the strikes of an escalation.
pub fn forgive(policy: &AbusePolicy, slot: &mut Option<AbuseState>, now: Timestamp) {
    if let Some(state) = slot {
        state.seen = state.time(now);
        state.attempts = std::collections::VecDeque::new();
        let time = state.seen;
        if !state.settle(policy, time) {
            *slot = None;
        }
    }
}

/// Lifts the block in force and returns it. The key is as new then: attempts and strikes are forgotten too, since an
/// attempt that still counted would bring the block back at once.
///
/// Without a block in force nothing changes.
pub fn unblock(slot: &mut Option<AbuseState>, now: Timestamp) -> Option<Block> {
    let block = slot.as_ref()?.block(now)?;
    *slot = None;
    Some(block)
}

/// Starts the blocks of all tiers whose counts have reached their thresholds; says whether one of them came into force.
fn start_blocks(policy: &AbusePolicy, state: &mut AbuseState, time: Timestamp) -> bool {
    let goes_on = state.in_force(time).is_some();
    if !goes_on {
        state.started = 0;
    }
    let strikes = if goes_on {
        state.strikes.saturating_sub(1)
    } else {
        state.standing_strikes(policy, time)
    };
    let mut harshest = None;
    for start in starts(policy, state, time, strikes) {
        state.started |= start.bit;
        if harshest
            .as_ref()
            .is_none_or(|harshest: &Start| start.until_us >= harshest.until_us)
        {
            harshest = Some(start);
        }
    }
    let Some(start) = harshest else {
        return false;
    };
    let ends_later = |block: &LastBlock| start.until_us > block.until_us;
    if !state.in_force(time).is_none_or(ends_later) {
        return false;
    }
    state.last_block = Some(LastBlock {
        scope: start.scope,
        since: time,
        until_us: start.until_us,
    });
    if policy.escalation_rule().is_none() {
        state.strikes = 0;
    } else if !goes_on {
        state.strikes = strikes.saturating_add(1).min(MAX_STRIKES);
    }
    true
}

/// The block of one tier, about to start.
struct Start {
    scope: PlanName,
    until_us: u64,
    bit: u8,
}

/// Lists the blocks that start at `time`, with `strikes` standing: of each tier whose count has reached its threshold and
/// that has not started one in the present stretch.
fn starts(
    policy: &AbusePolicy,
    state: &AbuseState,
    time: Timestamp,
    strikes: u8,
) -> SmallVec<[Start; MAX_TIERS]> {
    let mut starts = SmallVec::new();
    let mut bit = 1;
    for tier in policy.tiers() {
        let reached = state.count(tier.window_us(), time) >= tier.threshold();
        if reached && state.started & bit == 0 {
            let block_us = policy.escalation_rule().map_or(tier.block_us(), |rule| {
                rule.block_us(tier.block_us(), strikes)
            });
            starts.push(Start {
                scope: tier.name().clone(),
                until_us: time.as_micros() + block_us,
                bit,
            });
        }
        bit <<= 1;
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Escalation, Tier, days, hours, minutes, seconds};
    use std::time::Duration;

    fn at(seconds: u64) -> Timestamp {
        at_us(seconds * 1_000_000)
    }

    fn at_us(micros: u64) -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000 + micros).unwrap()
    }

    fn login() -> AbusePolicy {
        AbusePolicy::builder("login")
            .tier(Tier::new("temp", 3, seconds(10)).blocking_for(seconds(30)))
            .tier(Tier::new("long", 6, hours(1)).blocking_for(hours(2)))
            .build()
            .unwrap()
    }

    #[test]
    fn unblocking_tells_the_block_and_makes_the_key_as_new() {
        let (policy, mut slot) = (login(), None);
        assert_eq!(unblock(&mut slot, at(0)), None);
        for _ in 0..3 {
            let _ = record(&policy, &mut slot, at(0));
        }
        let lifted = unblock(&mut slot, at(10)).unwrap();
        assert_eq!(lifted.scope.as_str(), "temp");
        assert_eq!(lifted.retry_after, seconds(20));
        assert_eq!(slot, None);
    }

    #[test]
    fn a_strike_is_remembered_for_its_memory_after_the_block() {
        let escalation = Escalation::doubling(days(7), days(1)).by(3);
        let policy = AbusePolicy::builder("login")
            .tier(Tier::new("temp", 1, minutes(15)))
            .escalating(escalation)
            .build()
            .unwrap();
        let kept = policy.escalation().unwrap();
        assert_eq!(
            (kept.factor(), kept.memory(), kept.at_most()),
            (3, days(7), days(1))
        );
        let mut slot = None;
        let _ = record(&policy, &mut slot, at(0));
        let forgotten = at(0).saturating_add(minutes(15) + days(7));
        let expires = slot.as_ref().map(AbuseState::expires_at_us);
        assert_eq!(expires, Some(forgotten.as_micros()));
    }

    fn scope_and_wait(verdict: &AbuseVerdict) -> Option<(&str, u64)> {
        let block = verdict.block.as_ref()?;
        Some((block.scope.as_str(), block.retry_after.as_secs()))
    }

    #[test]
    fn the_nth_attempt_starts_the_block_and_says_so_once() {
        let mut state = None;
        for count in 1..3 {
            let verdict = record(&login(), &mut state, at(0));
            assert_eq!((verdict.block, verdict.counts[0]), (None, count));
        }
        let third = record(&login(), &mut state, at(0));
        assert_eq!(scope_and_wait(&third), Some(("temp", 30)));
        assert_eq!(third.block.as_ref().unwrap().since, at(0));
        assert!(third.started && !record(&login(), &mut state, at(1)).started);
    }

    #[test]
    fn more_of_the_same_does_not_prolong_a_block() {
        let mut state = None;
        for _ in 0..5 {
            let _ = record(&login(), &mut state, at(0));
        }
        assert_eq!(
            scope_and_wait(&status(&login(), state.as_ref(), at(29))),
            Some(("temp", 1))
        );
        assert_eq!(status(&login(), state.as_ref(), at(30)).block, None);
    }

    #[test]
    fn a_tier_starts_once_in_a_stretch_so_the_short_block_never_takes_the_long_ones_place() {
        let mut state = None;
        for _ in 0..6 {
            let _ = record(&login(), &mut state, at(0));
        }
        for second in 1..7_200 {
            let verdict = record(&login(), &mut state, at(second));
            assert_eq!(scope_and_wait(&verdict), Some(("long", 7_200 - second)));
        }
        let relapse = record(&login(), &mut state, at(7_200));
        assert_eq!(scope_and_wait(&relapse), Some(("long", 7_200)));
        assert!(relapse.started);
    }

    #[test]
    fn a_short_block_that_ends_later_replaces_a_long_one() {
        let mut state = None;
        for attempt in 0..6 {
            let _ = record(&login(), &mut state, at(attempt * 20));
        }
        let last_seconds = at(100 + 7_199);
        for _ in 0..2 {
            let verdict = record(&login(), &mut state, last_seconds);
            assert_eq!(scope_and_wait(&verdict), Some(("long", 1)));
        }
        let third = record(&login(), &mut state, last_seconds);
        assert_eq!(scope_and_wait(&third), Some(("temp", 30)));
    }

    #[test]
    fn of_blocks_that_end_together_the_one_in_force_stays_and_of_those_that_start_too_the_harder_wins()
     {
        let policy = AbusePolicy::builder("login")
            .tier(Tier::new("temp", 1, minutes(2)).blocking_for(minutes(1)))
            .tier(Tier::new("long", 2, minutes(2)).blocking_for(minutes(1)))
            .build()
            .unwrap();
        let mut state = None;
        for second in [0, 0] {
            let verdict = record(&policy, &mut state, at(second));
            assert_eq!(scope_and_wait(&verdict), Some(("temp", 60)));
        }
        let relapse = record(&policy, &mut state, at(60));
        assert_eq!(scope_and_wait(&relapse), Some(("long", 60)));
    }

    #[test]
    fn an_escalated_block_doubles_decays_and_counts_one_strike_a_stretch() {
        let policy = AbusePolicy::builder("login")
            .tier(Tier::new("temp", 1, seconds(1)).blocking_for(seconds(10)))
            .tier(Tier::new("long", 2, seconds(1)).blocking_for(seconds(20)))
            .escalating(Escalation::doubling(seconds(100), seconds(60)))
            .build()
            .unwrap();
        let mut state = None;
        let mut wait = |seconds| {
            let verdict = record(&policy, &mut state, at(seconds));
            verdict.block.map(|block| block.retry_after)
        };
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!([wait(0), wait(0)], [seconds(10), seconds(20)]);
        assert_eq!([wait(20), wait(20)], [seconds(20), seconds(40)]);
        assert_eq!([wait(60), wait(60)], [seconds(40), seconds(60)]);
        assert_eq!(wait(120 + 99), seconds(60));
        assert_eq!(wait(279 + 300), seconds(20));
        assert_eq!(wait(599 + 200), seconds(10));
    }

    #[test]
    fn a_key_hammered_a_million_times_keeps_as_many_attempts_as_the_largest_threshold() {
        for threshold in [1, 5, 10_000] {
            let policy = AbusePolicy::builder("login")
                .tier(Tier::new("temp", threshold, days(366)))
                .build()
                .unwrap();
            let mut state = None;
            let mut most = 0;
            for attempt in 0..1_000_000 {
                let _ = record(&policy, &mut state, at_us(attempt));
                most = most.max(state.as_ref().map_or(0, AbuseState::bytes));
            }
            let threshold = threshold as usize;
            assert!(
                most <= 8 * threshold.max(4) + 128,
                "{most} bytes for a threshold of {threshold}"
            );
            assert_eq!(state.unwrap().attempts.len(), threshold);
        }
    }

    #[test]
    fn room_of_attempts_that_have_left_is_given_back() {
        let policy = AbusePolicy::builder("login")
            .tier(Tier::new("temp", 10_000, seconds(1)))
            .build()
            .unwrap();
        let mut state = None;
        for _ in 0..9_999 {
            let _ = record(&policy, &mut state, at(0));
        }
        for second in 1..20 {
            let _ = record(&policy, &mut state, at(second));
        }
        assert!(state.unwrap().bytes() < 256);
    }

    #[test]
    fn forgiving_the_last_that_is_remembered_leaves_no_state() {
        let mut state = None;
        let _ = record(&login(), &mut state, at(0));
        forgive(&login(), &mut state, at(0));
        assert_eq!(state, None);
        for _ in 0..3 {
            let _ = record(&login(), &mut state, at(0));
        }
        forgive(&login(), &mut state, at(0));
        assert!(status(&login(), state.as_ref(), at(29)).block.is_some());
        assert_eq!(state.as_ref().unwrap().expires_at_us(), at(30).as_micros());
    }
}
