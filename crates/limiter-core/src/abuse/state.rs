//! [`AbuseState`]: what is remembered of one key under one policy.

use std::collections::VecDeque;

use super::{AbusePolicy, Block};
use crate::{PlanName, Timestamp};

/// What a store remembers of one key under one policy. No state at all means: never tried, or as good as that.
///
/// It takes at most 8 bytes for each attempt up to the policy's largest threshold, and some 100 bytes more, however hard
/// the key is hammered: only the newest attempts can matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbuseState {
    /// The latest moment at which the state changed: a clock behind it counts as standing still.
    pub(super) seen: Timestamp,
    /// When the newest attempts came, in microseconds, the oldest first.
    pub(super) attempts: VecDeque<u64>,
    /// The block in force, or the last one that was.
    pub(super) last_block: Option<LastBlock>,
    /// The stretches of blocks that escalation counts as of the end of the last block, that of the last block included.
    pub(super) strikes: u8,
    /// The tiers, by position, that have started their block in the present stretch: one bit each.
    pub(super) started: u8,
    expires_at_us: u64,
}

/// A block as it is stored: with its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastBlock {
    pub(super) scope: PlanName,
    pub(super) since: Timestamp,
    pub(super) until_us: u64,
}

/// The fewest attempts that room is made for.
const MIN_CAPACITY: usize = 4;

impl AbuseState {
    pub(super) const fn new(now: Timestamp) -> Self {
        Self {
            seen: now,
            attempts: VecDeque::new(),
            last_block: None,
            strikes: 0,
            started: 0,
            expires_at_us: 0,
        }
    }

    /// Returns the microsecond since the epoch from which on this state equals no state. A time to live may end then.
    #[must_use]
    pub const fn expires_at_us(&self) -> u64 {
        self.expires_at_us
    }

    /// Returns the bytes that the state takes: itself, and what it holds on the heap.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.attempts.capacity() * size_of::<u64>()
    }

    /// Returns the present moment as the state sees it: time does not run back.
    pub(super) fn time(&self, now: Timestamp) -> Timestamp {
        self.seen.max(now)
    }

    /// Returns the block in force when it is `now`, with the wait by that clock.
    pub(super) fn block(&self, now: Timestamp) -> Option<Block> {
        let block = self.in_force(self.time(now))?;
        Some(Block {
            scope: block.scope.clone(),
            since: block.since,
            retry_after: std::time::Duration::from_micros(block.until_us - now.as_micros()),
        })
    }

    /// Returns the block in force at `time`.
    pub(super) fn in_force(&self, time: Timestamp) -> Option<&LastBlock> {
        self.last_block
            .as_ref()
            .filter(|block| block.until_us > time.as_micros())
    }

    /// Returns how many attempts are in a window of `window_us` that ends with `time`.
    pub(super) fn count(&self, window_us: u64, time: Timestamp) -> u32 {
        let left = self
            .attempts
            .partition_point(|attempt_us| attempt_us + window_us <= time.as_micros());
        u32::try_from(self.attempts.len() - left).unwrap_or(u32::MAX)
    }

    /// Adds an attempt at `time`, and lets go of those that no tier can count any more.
    pub(super) fn add_attempt(&mut self, policy: &AbusePolicy, time: Timestamp) {
        let time_us = time.as_micros();
        let has_left = |attempt_us: &u64| attempt_us + policy.longest_window_us() <= time_us;
        while self.attempts.front().is_some_and(has_left) {
            self.attempts.pop_front();
        }
        let most = usize::try_from(policy.largest_threshold()).unwrap_or(usize::MAX);
        while self.attempts.len() >= most.max(1) {
            self.attempts.pop_front();
        }
        self.make_room(most);
        self.attempts.push_back(time_us);
    }

    /// Makes room for one more attempt: twice as much as before, but never more than `most`; and gives back what has
    /// not been needed for long.
    fn make_room(&mut self, most: usize) {
        let (len, room) = (self.attempts.len(), self.attempts.capacity());
        if len == room {
            let wanted = (room * 2).max(MIN_CAPACITY).min(most).max(len + 1);
            self.attempts.reserve_exact(wanted - len);
        } else if len < room / 4 {
            self.attempts.shrink_to((room / 2).max(MIN_CAPACITY));
        }
    }

    /// Returns the strikes that stand at `time`.
    pub(super) fn standing_strikes(&self, policy: &AbusePolicy, time: Timestamp) -> u8 {
        let (Some(escalation), Some(block)) = (policy.escalation_rule(), &self.last_block) else {
            return 0;
        };
        let good_us = time.as_micros().saturating_sub(block.until_us);
        escalation.standing(self.strikes, good_us)
    }

    /// Notes from when on the state means nothing; returns whether it means something at `time`.
    pub(super) fn settle(&mut self, policy: &AbusePolicy, time: Timestamp) -> bool {
        let counts_until = self
            .attempts
            .back()
            .map_or(0, |newest_us| newest_us + policy.longest_window_us());
        let block_counts_until = self.last_block.as_ref().map_or(0, |block| {
            let memory_us = policy
                .escalation_rule()
                .map_or(0, super::escalation::EscalationRule::memory_us);
            block.until_us + memory_us * u64::from(self.strikes)
        });
        self.expires_at_us = counts_until.max(block_counts_until);
        self.expires_at_us > time.as_micros()
    }
}
